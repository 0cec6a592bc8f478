package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestServerName takes the origin's name from the request: what it expands to is sent and verified, over every way.
func TestServerName(t *testing.T) {
	for id, way := range map[string]string{"T04_direct": "direct", "T04_http": "http", "T04_https": "https", "T04_h2": "h2", "T04_socks5": "socks5"} {
		t.Run(id, func(t *testing.T) {
			b := newBed(t)
			trust := "\ntls_trust_pool file " + b.originCA
			s := startGuarded(t, pathSite("whole", "https://"+b.origin.TLS, "lb_retries 1", b.via(way)+trust+"\ntls_server_name {header.X-Name}")+
				pathSite("part", "https://"+b.origin.TLS, "", b.via(way)+trust+"\ntls_server_name {header.X-Name}.test"))
			for _, tt := range []struct{ path, name, sni string }{
				{"/whole", "origin.test", "origin.test"}, {"/whole", "localhost", "localhost"}, {"/whole", "127.0.0.1", ""}, {"/part", "origin", "origin.test"},
				{"/whole", "ORIGIN.test", "ORIGIN.test"},
			} {
				res, body, err := s.do("GET", tt.path+"/headers", nil, http.Header{"X-Name": {tt.name}})
				if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), fmt.Sprintf("%q: %q", "server_name", tt.sni)) {
					t.Errorf("%s: %v %v %s", tt.name, res, err, body)
				}
			}
			requests, seen, failed := len(b.origin.Requests()), len(b.origin.Seen()), 0
			for _, name := range []string{
				"other.test", "", "{header.X-Name}", "{env.PATH}", "*.test", ".origin.test", "origin.test:443", "origin.test/x",
				"127.0.0.2", "[127.0.0.2]", ".", "örigin.test", strings.Repeat("n", 300) + ".test", "origin.test origin.test",
			} {
				for _, path := range []string{"/whole", "/part"} {
					res, body, err := s.do("POST", path+"/headers", strings.NewReader("body"), http.Header{"X-Name": {name}})
					if err != nil || res.StatusCode != 502 {
						t.Fatalf("%s, %q: %v %v", path, name, res, err)
					}
					assertNothingOfProxy(t, res, body)
				}
			}
			for _, e := range s.failures() {
				if code := e["code"]; code != "origin_cert_name_mismatch" && code != "placeholder_failed" && !strings.HasPrefix(fmt.Sprint(code), "origin_tls_") {
					t.Errorf("logged %v", e)
				}
				failed++
			}
			if n := len(b.origin.Requests()) - requests; n != 0 || failed == 0 {
				t.Errorf("%d requests reached the origin under a wrong name; %d failures", n, failed)
			}
			for _, peer := range b.origin.Seen()[seen:] {
				if peer.TLS != nil && strings.Contains(peer.TLS.ServerName, "http.request") {
					t.Errorf("the origin saw the name %q", peer.TLS.ServerName)
				}
			}
			if way != "direct" {
				b.assertNoDirect()
			}
		})
	}
	t.Run("T04_health_checks", func(t *testing.T) {
		t.Setenv("TUNNEL_TEST_NAME", "origin.test")
		b := newBed(t)
		for _, way := range bedWays {
			before := b.checked()
			s := startGuarded(t, pathSite("x", "https://"+b.origin.TLS, checks, b.via(way)+"\ntls_trust_pool file "+b.originCA+"\ntls_server_name {env.TUNNEL_TEST_NAME}"))
			awaitTrue(t, "health checks", func() bool { return b.checked() >= before+2 })
			s.get("/x/bytes/1", 200)
		}
		for _, saw := range b.origin.Requests() {
			if saw.ServerName != "origin.test" {
				t.Errorf("the origin saw the name %q", saw.ServerName)
			}
		}
	})
	t.Run("T04_the_upstream's_by_default", func(t *testing.T) {
		b := newBed(t)
		for dialect, p := range b.knowing("origin.test") {
			s := startGuarded(t, pathSite("x", "https://origin.test:"+port(t, b.origin.TLS), "header_up Host other.test", b.trusting(p)+"\ntls_trust_pool file "+b.originCA))
			if _, body, err := s.do("GET", "/x/headers", nil, nil); err != nil || !strings.Contains(string(body), `"server_name": "origin.test"`) {
				t.Errorf("%s: %s %v", dialect, body, err)
			}
		}
	})
	t.Run("T04_of_the_proxy", func(t *testing.T) {
		b := newBed(t)
		for _, dialect := range []string{"https", "h2"} {
			p := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Names: []string{"a.test", "b.test"}})
			s := startGuarded(t, pathSite("x", b.origin.Plain, "", fmt.Sprintf("via {\nproxy %s {\ntls_trust_pool file %s\ntls_server_name {header.X-Name}\n}\n}", p.URL(), b.proxyCA)))
			for _, name := range []string{"a.test", "b.test", "a.test"} {
				res, _, err := s.do("GET", "/x/bytes/1", nil, http.Header{"X-Name": {name}})
				if err != nil || res.StatusCode != 200 {
					t.Errorf("%s, %s: %v %v", dialect, name, res, err)
				}
			}
			for name, code := range map[string]string{"c.test": "proxy_cert_name_mismatch", "": "placeholder_failed", "{header.X-Name}": "proxy_cert_name_mismatch"} {
				n := len(s.failures())
				res, _, err := s.do("GET", "/x/bytes/1", nil, http.Header{"X-Name": {name}})
				if err != nil || res.StatusCode != 502 {
					t.Errorf("%s, %s: %v %v", dialect, name, res, err)
				}
				s.loggedCode(t, code, n+1)
			}
			var names []string
			for _, peer := range p.Peers() {
				names = append(names, peer.TLS.ServerName)
			}
			if len(names) < 2 || !slices.Equal(names[:2], []string{"a.test", "b.test"}) || len(p.Seen()) != 2 {
				t.Errorf("%s: the proxy saw the names %q, and %d requests", dialect, names, len(p.Seen()))
			}
		}
	})
}

// TestProxyByAddress reaches proxies by an address or a name that their certificates may not carry.
func TestProxyByAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		host, words string
		carries     []string
		sni, code   string
	}{
		"T12_address":                         {"127.0.0.1", "", []string{"127.0.0.1"}, "", ""},
		"T12_address_that_is_a_name_only":     {"127.0.0.1", "", []string{"localhost"}, "", "proxy_cert_name_mismatch"},
		"T12_address_verified_by_name":        {"127.0.0.1", "tls_server_name localhost", []string{"localhost"}, "localhost", ""},
		"T12_localhost":                       {"localhost", "", []string{"localhost"}, "localhost", ""},
		"T12_localhost_that_is_an_address":    {"localhost", "", []string{"127.0.0.1"}, "localhost", "proxy_cert_name_mismatch"},
		"T12_localhost_verified_as_address":   {"localhost", "tls_server_name 127.0.0.1", []string{"127.0.0.1"}, "", ""},
		"T12_localhost_and_name_of_an_origin": {"localhost", "", []string{"origin.test"}, "localhost", "proxy_cert_name_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			for _, dialect := range []string{"https", "h2"} {
				p := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Names: tt.carries})
				s := startGuarded(t, pathSite("x", "https://"+b.origin.TLS, "", fmt.Sprintf("via {\nproxy %s://%s:%s {\ntls_trust_pool file %s\n%s\n}\n}\ntls_trust_pool file %s\ntls_server_name origin.test",
					dialect, tt.host, port(t, p.Addr), b.proxyCA, tt.words, b.originCA)))
				if tt.code == "" {
					s.get("/x/bytes/1", 200)
				} else {
					s.get("/x/bytes/1", 502)
					s.loggedCode(t, tt.code, 1)
				}
				if hello := p.Peers()[0].TLS; hello == nil || hello.ServerName != tt.sni {
					t.Errorf("%s: the proxy saw %+v, want the name %q", dialect, hello, tt.sni)
				}
				if asked := len(p.Seen()) > 0; asked != (tt.code == "") {
					t.Errorf("%s: the proxy was asked %+v", dialect, p.Seen())
				}
			}
		})
	}
}
