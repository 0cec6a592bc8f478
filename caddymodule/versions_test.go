package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// load adapts a site and provisions it, and says at which of the two it failed.
func load(t *testing.T, words string) (adapts bool, err error) {
	t.Helper()
	site := fmt.Sprintf("reverse_proxy https://127.0.0.1:1 {\ntransport tunnel {\n%s\n}\n}", words)
	if _, err := adapt(":1 {\n" + site + "\n}"); err != nil {
		return false, err
	}
	return true, validate(t, site)
}

// loadJSON provisions a transport that came as JSON.
func loadJSON(t *testing.T, config string) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	_, err := ctx.LoadModuleByID("http.reverse_proxy.transport.tunnel", json.RawMessage(config))
	return err
}

// TestVersions has clients of HTTP/1.1 ask an origin that is to be spoken to in another version, and writes down versions that
// there are not.
func TestVersions(t *testing.T) {
	for id, way := range map[string]string{"H11_h2c_direct": "direct", "H11_h2c_http": "http", "H11_h2c_https": "https", "H11_h2c_h2": "h2", "H11_h2c_socks5": "socks5"} {
		t.Run(id, func(t *testing.T) {
			b := newBed(t)
			s := startGuarded(t, pathSite("word", b.origin.Plain, checks, b.via(way)+"\nversions h2c")+
				pathSite("both", "http://"+b.origin.Plain, "", b.via(way)+"\nversions 1.1 h2c")+
				pathSite("scheme", "h2c://"+b.origin.Plain, "", b.via(way)))
			awaitTrue(t, "health checks", func() bool { return b.checked() >= 2 })
			for _, path := range []string{"word", "both", "scheme"} {
				s.get("/"+path+"/bytes/100000", http.StatusOK)
				for _, body := range []io.Reader{testbed.PageReader(uploadBytes), struct{ io.Reader }{testbed.PageReader(uploadBytes)}} {
					res, got, err := s.do("POST", "/"+path+"/upload", body, nil)
					if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(got), testbed.PageSum(uploadBytes)) {
						t.Errorf("%s: %v %s %v", path, res, got, err)
					}
				}
			}
			for _, r := range b.origin.Requests() {
				if r.Proto != "HTTP/2.0" || r.TLS {
					t.Errorf("%s %s over %s, TLS %v", r.Method, r.URI, r.Proto, r.TLS)
				}
			}
			if n := b.origin.Accepted(); n != 3 {
				t.Errorf("%d connections for three routes", n)
			}
			if way != "direct" {
				b.assertNoDirect()
			}
		})
	}
	t.Run("H11_bad_tokens", func(t *testing.T) {
		for _, token := range []string{"h2", "h1", "h3", "H2C", "2.0", "1", "1.0", "11", "http/1.1", "HTTP/2", "h2c,2", "all", ""} {
			for _, among := range [][]string{{token}, {"1.1", "2", token}, {token, "h2c"}} {
				want := fmt.Sprintf("versions %q: allowed are 1.1, 2 and h2c", token)
				adapts, err := load(t, "via direct\nversions \""+strings.Join(among, `" "`)+"\"")
				if adapts || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Caddyfile:") {
					t.Errorf("%q in the Caddyfile: %v", among, err)
				}
				list, _ := json.Marshal(among)
				if err := loadJSON(t, fmt.Sprintf(`{"via": [{"direct": true}], "versions": %s}`, list)); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q in JSON: %v", among, err)
				}
			}
		}
		if adapts, err := load(t, "via direct\nversions"); adapts || err == nil {
			t.Error("no version at all loads")
		}
		if err := loadJSON(t, `{"via": [{"direct": true}], "versions": [2]}`); err == nil {
			t.Error("a number loads")
		}
	})
	t.Run("H11_h2c_where_TLS_is_on", func(t *testing.T) {
		for _, words := range []string{"versions h2c", "tls\nversions h2c"} { // the scheme turns it on as well
			if _, err := load(t, "via direct\n"+words); err == nil || !strings.Contains(err.Error(), "versions h2c is HTTP/2 without TLS") {
				t.Errorf("%q: %v", words, err)
			}
		}
		if err := loadJSON(t, `{"via": [{"direct": true}], "versions": ["h2c"], "tls": {}}`); err == nil {
			t.Error("loads")
		}
	})
	t.Run("H11_versions_that_there_are", func(t *testing.T) {
		for _, versions := range []string{"1.1", "2", "1.1 2", "2 1.1", "1.1 2 h2c", "h2c 2"} {
			if _, err := load(t, "via direct\nversions "+versions); err != nil {
				t.Errorf("%s: %v", versions, err)
			}
		}
	})
}

// TestSideBySideVersions asks for HTTP/3, which is not for tunnels over TCP.
func TestSideBySideVersions(t *testing.T) {
	for id, versions := range map[string]string{"V16_3": "3", "V16_3_among_others": "1.1 2 3", "V16_3_and_h2c": "h2c 3"} {
		t.Run(id, func(t *testing.T) {
			sideBySide(t, func(s *side) {
				for _, dialect := range s.dialects() {
					s.assertRefused("https://"+s.b.origin.TLS, s.through(s.proxies[dialect], s.trust()+"versions "+versions))
				}
				for _, p := range s.all() {
					if n := p.Accepted() + s.b.origin.Accepted(); n != 0 {
						s.wrong("%d connections were made", n)
					}
				}
			})
		})
	}
	t.Run("V16_3_in_JSON", func(t *testing.T) {
		for _, way := range []string{`"via": [{"proxies": [{"url": "http://127.0.0.1:1"}]}]`, `"via": [{"direct": true}]`, `"network_proxy": {"from": "url", "url": "socks5://127.0.0.1:1"}`} {
			for _, versions := range []string{`["3"]`, `["1.1", "2", "3"]`} {
				if err := loadJSON(t, fmt.Sprintf(`{%s, "versions": %s, "tls": {}}`, way, versions)); err == nil || !strings.Contains(err.Error(), whyNotHTTP3) {
					t.Errorf("%s, %s: %v", way, versions, err)
				}
			}
		}
	})
}

const whyNotHTTP3 = "HTTP/3 runs over QUIC and cannot be carried through a tunnel"

// assertRefused wants a site not to load, for HTTP/3.
func (s *side) assertRefused(upstream, transport string) {
	s.t.Helper()
	site := fmt.Sprintf("reverse_proxy %s {\n%s\n}", upstream, transport)
	if _, err := adapt(":1 {\n" + site + "\n}"); err == nil || !strings.Contains(err.Error(), whyNotHTTP3) || !strings.Contains(err.Error(), "Caddyfile:") {
		s.wrong("adapts: %v", err)
	}
	if err := validate(s.t, site); err == nil || !strings.Contains(err.Error(), whyNotHTTP3) {
		s.wrong("loads: %v", err)
	}
}
