package caddymodule

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// validate adapts and provisions a site, and starts nothing.
func validate(t *testing.T, site string) error {
	t.Helper()
	s := &server{t: t, url: "http://127.0.0.1:1", admin: "127.0.0.1:1", log: filepath.Join(t.TempDir(), "caddy.log")}
	data, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(s.caddyfile(site)), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	cfg := new(caddy.Config)
	if err := json.Unmarshal(data, cfg); err != nil {
		t.Fatal(err)
	}
	return caddy.Validate(cfg)
}

// port is the port of an address.
func port(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestNoWayIsNoDirectWay has ways that come to nothing, when they load and with the request: they lead nowhere.
func TestNoWayIsNoDirectWay(t *testing.T) {
	for name, words := range map[string]string{
		"K08_variable_as_URL":    "via {env.TUNNEL_TEST_UNSET}",
		"K08_variable_as_host":   "via http://{env.TUNNEL_TEST_UNSET}:3128",
		"K08_variable_as_port":   "via http://127.0.0.1:{env.TUNNEL_TEST_UNSET}",
		"K08_file_as_URL":        "via {file./nonexistent}",
		"K08_request_as_URL":     "via {http.request.header.X-Proxy}",
		"K08_nothing":            "",
		"K08_empty_URL":          "via \"\"",
		"K08_unknown_scheme":     "via socks4://127.0.0.1:1080",
		"K08_no_scheme":          "via 127.0.0.1:3128",
		"K08_no_host":            "via http://:3128",
		"K08_bad_port":           "via http://127.0.0.1:65536",
		"K08_bad_escape":         "via http://%zz@127.0.0.1:3128",
		"K08_empty_network":      "network_proxy url \"\"",
		"K08_empty_second_proxy": "via http://127.0.0.1:1\nthen {env.TUNNEL_TEST_UNSET}",
	} {
		t.Run(name, func(t *testing.T) {
			if err := validate(t, fmt.Sprintf("reverse_proxy 127.0.0.1:1 {\ntransport tunnel {\n%s\n}\n}", words)); err == nil {
				t.Error("loads")
			}
		})
	}
	t.Run("K08_placeholder_empty_for_the_request", assertEmptyGoesNowhere)
}

// assertEmptyGoesNowhere sends requests whose placeholders say nothing.
func assertEmptyGoesNowhere(t *testing.T) {
	b := newBed(t)
	p := b.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5})
	h := b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP})
	s := startGuarded(t,
		pathSite("user", b.origin.Plain, "lb_retries 2", fmt.Sprintf("via {\nproxy %s {\nauth basic {http.request.header.X-Value} pw\n}\n}", p.URL()))+
			pathSite("password", b.origin.Plain, "", fmt.Sprintf("via {\nproxy %s {\nauth basic svc {http.request.header.X-Value}\n}\n}", p.URL()))+
			pathSite("unset", b.origin.Plain, "", fmt.Sprintf("via {\nproxy %s {\nauth basic svc {env.TUNNEL_TEST_UNSET}\n}\n}", p.URL()))+
			pathSite("header", b.origin.Plain, "", fmt.Sprintf("via {\nproxy %s {\nheader X-Tenant {http.request.header.X-Value}\n}\n}", h.URL()))+
			pathSite("name", "https://"+b.origin.TLS, "", fmt.Sprintf("via %s\ntls_trust_pool file %s\ntls_server_name {http.request.header.X-Value}", h.URL(), b.originCA)))
	paths := []string{"/user", "/password", "/unset", "/header", "/name"}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST"} {
			res, body, err := s.do(method, path+"/bytes/1", strings.NewReader("body"), nil)
			if err != nil || res.StatusCode != 502 || len(body) != 0 {
				t.Errorf("%s %s: %v %v %q", method, path, res, err, body)
			}
		}
	}
	if n := p.Accepted() + h.Accepted() + b.origin.Accepted(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	for _, e := range s.failures() {
		// The origin's name is no proxy's.
		hop := p.URL()
		switch text := fmt.Sprint(e["error"]); {
		case strings.Contains(text, "header X-Tenant"):
			hop = h.URL()
		case strings.Contains(text, "tls_server_name"):
			hop = ""
		}
		if e["code"] != "placeholder_failed" || e["stage"] != "config" || e["hop"] != hop {
			t.Errorf("logged %v", e)
		}
	}
	for _, path := range paths {
		if path == "/unset" {
			continue
		}
		res, _, err := s.do("GET", path+"/bytes/1", nil, http.Header{"X-Value": {"origin.test"}})
		if err != nil || res.StatusCode != 200 {
			t.Errorf("%s with a value: %v %v", path, res, err)
		}
	}
	b.assertNoDirectTo(p, h)
}

// TestUnixUpstream reaches an origin on a Unix socket without a proxy, and refuses to load one with a proxy.
func TestUnixUpstream(t *testing.T) {
	b := newBed(t)
	upstream := "unix/" + b.origin.Socket
	for _, way := range []string{"http", "https", "h2", "socks5"} {
		if err := validate(t, pathSite("x", upstream, "", b.via(way))); err == nil || !strings.Contains(err.Error(), "via direct") {
			t.Errorf("%s: %v", way, err)
		}
		if err := validate(t, pathSite("x", "127.0.0.1:1 "+upstream, "", b.via(way))); err == nil {
			t.Errorf("%s, as the second upstream: loads", way)
		}
	}
	// Which upstream it is may show only with the request.
	s := startGuarded(t, pathSite("direct", upstream, checks, "via direct")+
		pathSite("late", "{http.request.header.X-Upstream}", "", b.via("http")+"\nbypass localhost private_ranges"))
	s.get("/direct/bytes/100", 200)
	awaitTrue(t, "health checks", func() bool { return b.checked() >= 2 })
	res, _, err := s.do("GET", "/late/bytes/7", nil, http.Header{"X-Upstream": {upstream}})
	if err != nil || res.StatusCode != 502 {
		t.Errorf("a socket that shows with the request: %v %v", res, err)
	}
	if e := s.failures(); len(e) == 0 {
		t.Error("nothing is logged of it")
	}
	for _, r := range b.origin.Requests() {
		if r.URI == "/bytes/7" {
			t.Error("it reached the origin")
		}
	}
}

// TestBypassEndToEnd reaches the origins of bypass directly, and no others.
func TestBypassEndToEnd(t *testing.T) {
	b := newBed(t)
	dns := "\nresolvers " + startDNS(t)
	p := b.proxies["http"]
	at := ":" + port(t, b.origin.Plain)
	s := startGuarded(t,
		pathSite("name", "one.test"+at, "", b.via("http")+dns+"\nbypass one.test")+
			pathSite("below", "a.corp.test"+at, "", b.via("http")+dns+"\nbypass .corp.test")+
			pathSite("address", b.origin.Plain, "", b.via("http")+dns+"\nbypass 127.0.0.0/8")+
			pathSite("not-below", "corp.test"+at, "", b.via("http")+dns+"\nbypass .corp.test")+
			pathSite("not-name", "xone.test"+at, "", b.via("http")+dns+"\nbypass one.test")+
			// The rules are for the upstream as it is configured, not for what it resolves to nor for what a client says.
			pathSite("not-resolved", "two.test"+at, "", b.via("http")+dns+"\nbypass 127.0.0.0/8 private_ranges")+
			pathSite("not-port", "one.test"+at, "", b.via("http")+dns+"\nbypass one.test:1"))
	for path, direct := range map[string]bool{
		"/name": true, "/below": true, "/address": true, "/not-below": false, "/not-name": false, "/not-resolved": false, "/not-port": false,
	} {
		before, asked := len(b.origin.Direct(p)), len(p.Seen())
		res, _, err := s.do("GET", path+"/bytes/1", nil, http.Header{"Host": {"one.test"}, "X-Forwarded-Host": {"one.test"}})
		if err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %v %v", path, res, err)
		}
		if made := len(b.origin.Direct(p)) - before; (made == 1) != direct {
			t.Errorf("%s: %d direct connections", path, made)
		}
		if made := len(p.Seen()) - asked; (made == 1) == direct {
			t.Errorf("%s: the proxy was asked %d times", path, made)
		}
	}
}
