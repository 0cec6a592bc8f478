package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestHealthChecksElsewhere checks origins by another address, scheme, Host or name than requests have. Each check goes through
// the proxy, to where it is sent.
func TestHealthChecksElsewhere(t *testing.T) {
	for name, row := range map[string]struct {
		upstream, proxyWords, words string // $TLS, $PLAIN and $DEAD are ports
		target, host, serverName    string // an empty serverName: without TLS
		proto                       string
	}{
		"K03_same_port":                   {"https://origin.test:$TLS", "", "", "origin.test:$TLS", "origin.test:$TLS", "origin.test", "HTTP/2.0"},
		"K03_health_port":                 {"https://origin.test:$DEAD", "health_port $TLS", "", "origin.test:$TLS", "origin.test:$TLS", "origin.test", "HTTP/2.0"},
		"K03_health_port_of_http":         {"http://origin.test:$DEAD", "health_port $PLAIN", "", "origin.test:$PLAIN", "origin.test:$PLAIN", "", "HTTP/1.1"},
		"K03_health_port_of_h2c":          {"h2c://origin.test:$DEAD", "health_port $PLAIN", "", "origin.test:$PLAIN", "origin.test:$PLAIN", "", "HTTP/2.0"},
		"K03_health_port_without_TLS":     {"https://origin.test:$TLS", "health_port $PLAIN", "tls_except_ports $PLAIN", "origin.test:$PLAIN", "origin.test:$PLAIN", "", "HTTP/1.1"},
		"K03_health_port_with_TLS":        {"https://origin.test:$PLAIN", "health_port $TLS", "tls_except_ports $PLAIN", "origin.test:$TLS", "origin.test:$TLS", "origin.test", "HTTP/2.0"},
		"K03_health_upstream":             {"https://origin.test:$DEAD", "health_upstream localhost:$TLS", "", "localhost:$TLS", "localhost:$TLS", "localhost", "HTTP/2.0"},
		"K03_health_upstream_of_http":     {"http://origin.test:$DEAD", "health_upstream localhost:$PLAIN", "", "localhost:$PLAIN", "localhost:$PLAIN", "", "HTTP/1.1"},
		"K03_health_upstream_without_TLS": {"https://origin.test:$TLS", "health_upstream localhost:$PLAIN", "tls_except_ports $PLAIN", "localhost:$PLAIN", "localhost:$PLAIN", "", "HTTP/1.1"},
		"K03_health_upstream_with_TLS":    {"https://origin.test:$PLAIN", "health_upstream localhost:$TLS", "tls_except_ports $PLAIN", "localhost:$TLS", "localhost:$TLS", "localhost", "HTTP/2.0"},
		"K03_Host_header":                 {"https://origin.test:$TLS", "health_headers {\nHost check.example\n}", "", "origin.test:$TLS", "check.example", "origin.test", "HTTP/2.0"},
		"K03_server_name":                 {"https://origin.test:$DEAD", "health_port $TLS\nhealth_headers {\nHost check.example\n}", "tls_server_name localhost", "origin.test:$TLS", "check.example", "localhost", "HTTP/2.0"},
		"K03_versions":                    {"https://origin.test:$TLS", "", "versions 1.1", "origin.test:$TLS", "origin.test:$TLS", "origin.test", "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			ports := strings.NewReplacer("$TLS", port(t, b.origin.TLS), "$PLAIN", port(t, b.origin.Plain), "$DEAD", port(t, closedAddr(t)))
			words := ports.Replace(row.words)
			if strings.HasPrefix(row.upstream, "https") {
				words += "\ntls_trust_pool file " + b.originCA
			}
			var site strings.Builder
			for _, way := range bedWays[1:] {
				site.WriteString(pathSite(way, ports.Replace(row.upstream), checks+ports.Replace(row.proxyWords), b.via(way)+"\n"+words))
			}
			s := startGuarded(t, site.String())
			awaitTrue(t, "health checks", func() bool { return b.checked() >= 2*len(bedWays[1:]) })
			if failed := s.failures(); len(failed) > 0 {
				t.Errorf("checks failed: %v", failed)
			}
			for _, r := range b.origin.Requests() {
				if r.Host != ports.Replace(row.host) || r.ServerName != row.serverName || r.TLS != (row.serverName != "") || r.Proto != row.proto {
					t.Errorf("a check for %q came by the name %q over %s, TLS %v", r.Host, r.ServerName, r.Proto, r.TLS)
				}
			}
			for _, way := range bedWays[1:] {
				targets := b.proxies[way].Targets()
				for _, target := range targets {
					if target != ports.Replace(row.target) {
						t.Errorf("%s: the proxy was asked for %s", way, target)
					}
				}
				if len(targets) == 0 {
					t.Errorf("%s: the proxy was asked for nothing", way)
				}
			}
			b.assertNoDirect()
		})
	}
}

// TestWaysToOneOrigin reaches an origin by two ways, of which one does not lead there. Neither knows of the other.
func TestWaysToOneOrigin(t *testing.T) {
	for _, dialect := range []testbed.Dialect{testbed.HTTP, testbed.HTTPS, testbed.H2, testbed.SOCKS5} {
		refuse := testbed.Misbehave{Status: http.StatusBadGateway}
		if dialect == testbed.SOCKS5 {
			refuse = testbed.Misbehave{SOCKSReply: 4}
		}
		t.Run("K02_active_checks_"+string(dialect), func(t *testing.T) {
			b := newBed(t)
			proxies := map[string]*testbed.Proxy{}
			site := ""
			for _, name := range []string{"a", "b"} {
				proxies[name] = b.proxy(testbed.ProxyConfig{Dialect: dialect, Authority: b.proxies["https"].Authority()})
				site += pathSite(name, b.origin.Plain, checks, b.trusting(proxies[name])+"\nkeepalive off")
			}
			proxies["a"].SetMisbehave(refuse)
			s := startGuarded(t, site)
			for range 2 {
				for down, up := range map[string]string{"a": "b", "b": "a"} {
					proxies[down].SetMisbehave(refuse)
					proxies[up].SetMisbehave(testbed.Misbehave{})
					s.awaitStatus("/"+down+"/bytes/1", http.StatusServiceUnavailable)
					s.awaitStatus("/"+up+"/bytes/1", http.StatusOK)
					failures, checked := len(s.failures()), b.checked()
					awaitTrue(t, "more checks by both ways", func() bool { return len(s.failures()) > failures+3 && b.checked() > checked+3 })
					s.get("/"+up+"/bytes/1", http.StatusOK)
					s.get("/"+down+"/bytes/1", http.StatusServiceUnavailable)
				}
			}
			b.assertNoDirectTo(proxies["a"], proxies["b"])
		})
		t.Run("K02_login_refused_"+string(dialect), func(t *testing.T) {
			b := newBed(t)
			p := b.proxy(testbed.ProxyConfig{Dialect: dialect, Authority: b.proxies["https"].Authority(), Username: "right", Password: "x"})
			site := ""
			for _, user := range []string{"wrong", "right"} {
				site += pathSite(user, b.origin.Plain, "lb_retries 1", fmt.Sprintf("via {\nproxy %s {\nauth basic %s x\n%s\n}\n}\nkeepalive off",
					p.URL(), user, trustFor(string(dialect), "tls_trust_pool file "+b.proxyCA)))
			}
			s := startGuarded(t, site)
			for range 5 {
				s.get("/wrong/bytes/1", http.StatusBadGateway)
				s.get("/right/bytes/1", http.StatusOK)
			}
			s.loggedCode(t, "proxy_auth_refused", 10)
		})
	}
	t.Run("K02_limit_of_connections", func(t *testing.T) {
		b := newBed(t)
		site := ""
		for _, name := range []string{"a", "b"} {
			site += pathSite(name, b.origin.Plain, "", b.via("http")+"\nmax_conns_per_host 1")
		}
		s := startGuarded(t, site)
		var hung sync.WaitGroup
		defer hung.Wait()
		defer b.origin.DropConns()
		hung.Go(func() { s.do("GET", "/a/broken/hang", nil, nil) })
		awaitTrue(t, "the request that hangs", func() bool { return len(b.origin.Requests()) == 1 })
		for range 3 {
			s.get("/b/bytes/1", http.StatusOK)
		}
	})
}

// awaitStatus waits until a path is answered with a status.
func (s *server) awaitStatus(path string, status int) {
	s.t.Helper()
	awaitTrue(s.t, fmt.Sprintf("status %d of %s", status, path), func() bool {
		res, _, err := s.do("GET", path, nil, nil)
		return err == nil && res.StatusCode == status
	})
}
