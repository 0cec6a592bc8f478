package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A side runs a site over one of two transports: Caddy's own, `http`, or this module's. The Caddyfile is the same but for
// the words that name the way.
type side struct {
	t         *testing.T
	b         *bed
	transport string
	proxies   map[string]*testbed.Proxy // by dialect; one authority signs for them and for the origin, as `http` needs it
}

// sideBySide runs f over `http` and then over `tunnel`.
func sideBySide(t *testing.T, f func(s *side)) {
	for _, transport := range []string{"http", "tunnel"} {
		t.Run(transport, func(t *testing.T) { f(newSide(t, transport)) })
	}
}

func newSide(t *testing.T, transport string) *side {
	t.Helper()
	s := &side{t: t, b: newBed(t), transport: transport, proxies: make(map[string]*testbed.Proxy)}
	for _, dialect := range s.dialects() {
		s.start(testbed.ProxyConfig{Dialect: testbed.Dialect(dialect)})
	}
	return s
}

// dialects are those that the side speaks to proxies.
func (s *side) dialects() []string {
	if s.transport == "http" {
		return []string{"http", "https", "socks5"}
	}
	return []string{"http", "https", "socks5", "h2"}
}

// start starts a proxy, in place of the one of its dialect.
func (s *side) start(cfg testbed.ProxyConfig) *testbed.Proxy {
	s.t.Helper()
	cfg.Authority = s.b.origin.Authority()
	p := s.b.proxy(cfg)
	s.proxies[string(cfg.Dialect)] = p
	return p
}

// behave makes every proxy misbehave.
func (s *side) behave(m testbed.Misbehave) {
	for _, p := range s.proxies {
		p.SetMisbehave(m)
	}
}

// wrong fails the test if it is this module's transport that is wrong. What `http` does is told only.
func (s *side) wrong(format string, args ...any) {
	s.t.Helper()
	if s.transport == "tunnel" {
		s.t.Errorf(format, args...)
	} else {
		s.t.Logf(format, args...)
	}
}

// through is a transport's block: the way through the proxy, and further words.
func (s *side) through(p *testbed.Proxy, words string) string {
	return s.throughURL(string(p.Dialect), p.URL(), words)
}

func (s *side) throughURL(dialect, url, words string) string {
	if s.transport == "http" {
		return fmt.Sprintf("transport http {\nnetwork_proxy url %s\n%s\n}", url, words)
	}
	trust := trustFor(dialect, "tls_trust_pool file "+s.b.originCA)
	return fmt.Sprintf("transport tunnel {\nvia {\nproxy %s {\n%s\n}\n}\n%s\n}", url, trust, words)
}

// site is a site's body with a path for each dialect, all to one upstream.
func (s *side) site(upstream, proxyWords, transportWords string) string {
	site := ""
	for _, dialect := range s.dialects() {
		site += fmt.Sprintf("handle_path /%s/* {\nreverse_proxy %s {\n%s\n%s\n}\n}\n",
			dialect, upstream, proxyWords, s.through(s.proxies[dialect], transportWords))
	}
	return site
}

// get sends a request through the dialect's proxy, which must succeed, and returns the body of the response.
func (s *side) get(c *server, dialect, path string, header http.Header) []byte {
	s.t.Helper()
	res, body, err := c.do("GET", "/"+dialect+path, nil, header)
	switch {
	case err != nil:
		s.wrong("%s: %v", dialect, err)
	case res.StatusCode != 200:
		s.wrong("%s: status %d", dialect, res.StatusCode)
	}
	return body
}

// trust is what the leg to the origin needs.
func (s *side) trust() string { return "tls_trust_pool file " + s.b.originCA + "\n" }

// all returns the side's proxies.
func (s *side) all() []*testbed.Proxy {
	var all []*testbed.Proxy
	for _, p := range s.proxies {
		all = append(all, p)
	}
	return all
}

// assertNoDirect fails the test if the origin had a peer that is none of the proxies.
func (s *side) assertNoDirect() {
	s.t.Helper()
	for _, p := range s.b.origin.Direct(s.all()...) {
		s.wrong("the origin's %s port was reached directly, by %+v", p.Listener, p)
	}
}

// TestSideBySideChecks runs active health checks through every proxy.
func TestSideBySideChecks(t *testing.T) {
	t.Run("V01_checks_of_tls_origins", func(t *testing.T) {
		sideBySide(t, func(s *side) { s.assertChecks("https://"+s.b.origin.TLS, s.trust()) })
	})
	t.Run("V02_checks_of_plain_origins", func(t *testing.T) {
		sideBySide(t, func(s *side) { s.assertChecks("http://"+s.b.origin.Plain, "") })
	})
	t.Run("V02_checks_of_h2c_origins", func(t *testing.T) {
		sideBySide(t, func(s *side) { s.assertChecks("h2c://"+s.b.origin.Plain, "") })
	})
	t.Run("V08_checks_with_proxy_protocol", func(t *testing.T) {
		for _, version := range []string{"v1", "v2"} {
			sideBySide(t, func(s *side) {
				s.demandHeaders()
				s.assertChecks("https://"+s.b.origin.TLS, s.trust()+"proxy_protocol "+version)
				local := map[string]string{"v1": "UNKNOWN", "v2": "LOCAL"}[version]
				for _, p := range s.b.origin.Seen() {
					if p.ProxyHeader != local && !strings.HasPrefix(p.ProxyHeader, "127.") {
						s.wrong("a connection came with the header %q", p.ProxyHeader)
					}
				}
			})
		}
	})
	t.Run("V08_checks_with_proxy_protocol_and_no_proxy", func(t *testing.T) {
		b := newBed(t)
		b.demandHeaders()
		s := startGuarded(t, b.site("direct", "h1-cleartext", "proxy_protocol v1", checks))
		awaitTrue(t, "health checks", func() bool { return b.checked() >= 2 })
		s.get("/bytes/10", 200)
		if failed := s.logged("HTTP request failed"); len(failed) > 0 {
			t.Errorf("checks failed: %v", failed)
		}
	})
	t.Run("V09_proxy_protocol", func(t *testing.T) {
		for _, version := range []string{"v1", "v2"} {
			sideBySide(t, func(s *side) {
				s.demandHeaders()
				c := startCaddy(s.t, s.site("http://"+s.b.origin.Plain, "", "proxy_protocol "+version))
				for _, dialect := range s.dialects() {
					s.get(c, dialect, "/headers", nil)
					for _, fault := range s.proxies[dialect].Faults() {
						s.wrong("%s, %s: the proxy could not follow: %s", version, dialect, fault)
					}
				}
				for _, p := range s.b.origin.Seen() {
					if !strings.HasPrefix(p.ProxyHeader, "127.") {
						s.wrong("%s: a connection came with the header %q", version, p.ProxyHeader)
					}
				}
				s.assertNoDirect()
			})
		}
	})
}

func (s *side) demandHeaders() { s.b.demandHeaders() }

// restart replaces the origin by another of the same authority.
func (b *bed) restart(cfg testbed.OriginConfig) {
	b.t.Helper()
	b.origin.Close()
	cfg.Authority = b.origin.Authority()
	origin, err := testbed.NewOrigin(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { origin.Close() })
	b.origin = origin
}

// assertChecks lets every proxy carry two health checks and a request.
func (s *side) assertChecks(upstream, words string) {
	s.t.Helper()
	c := startCaddy(s.t, s.site(upstream, checks, words))
	failed := func() int {
		return len(c.logged("HTTP request failed")) + len(c.logged("status code out of tolerances"))
	}
	awaitTrue(s.t, "health checks", func() bool { return s.b.checked()+failed() >= 2*len(s.dialects()) })
	if n := failed(); n > 0 {
		s.wrong("%d checks failed", n)
	}
	for _, dialect := range s.dialects() {
		s.get(c, dialect, "/bytes/10", nil)
		if n := len(s.proxies[dialect].Seen()); n == 0 {
			s.wrong("%s: the proxy was asked for nothing", dialect)
		}
		for _, target := range s.proxies[dialect].Targets() {
			if target != s.b.origin.Plain && target != s.b.origin.TLS {
				s.wrong("%s: the proxy was asked for %s", dialect, target)
			}
		}
	}
	s.assertNoDirect()
}
