package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestConnectTargets asks proxies for tunnels that they refuse, and looks at what they were asked for.
func TestConnectTargets(t *testing.T) {
	for name, tt := range map[string]struct {
		upstream string
		value    string // of the request's X-Upstream
		want     string
	}{
		"C17_name":                   {"origin.test", "", "origin.test:80"},
		"C17_name_and_port":          {"origin.test:8080", "", "origin.test:8080"},
		"C17_http":                   {"http://origin.test", "", "origin.test:80"},
		"C17_http_and_port":          {"http://origin.test:8443", "", "origin.test:8443"},
		"C17_https":                  {"https://origin.test", "", "origin.test:443"},
		"C17_https_and_port":         {"https://origin.test:8080", "", "origin.test:8080"},
		"C17_h2c":                    {"h2c://origin.test", "", "origin.test:80"},
		"C17_address":                {"192.0.2.1", "", "192.0.2.1:80"},
		"C17_placeholder":            {"{http.request.header.X-Upstream}", "origin.test", "origin.test:80"},
		"C17_placeholder_and_port":   {"{http.request.header.X-Upstream}", "origin.test:8080", "origin.test:8080"},
		"C17_placeholder_then_port":  {"{http.request.header.X-Upstream}:443", "origin.test", "origin.test:443"},
		"C20_IPv6":                   {"[2001:db8::1]:443", "", "[2001:db8::1]:443"},
		"C20_IPv6_https":             {"https://[2001:db8::1]:8443", "", "[2001:db8::1]:8443"},
		"C20_IPv6_without_port":      {"https://[2001:db8::1]", "", "[2001:db8::1]:443"},
		"C20_IPv6_placeholder":       {"{http.request.header.X-Upstream}", "[2001:db8::1]:443", "[2001:db8::1]:443"},
		"C20_IPv6_placeholder_short": {"{http.request.header.X-Upstream}", "[2001:db8::1]", "[2001:db8::1]:80"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			var site strings.Builder
			proxies := make(map[string]*testbed.Proxy)
			for _, dialect := range append(slices.Clone(httpDialects), "socks5") {
				p := b.proxy(testbed.ProxyConfig{
					Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Allow: func(string) bool { return false },
				})
				proxies[dialect] = p
				site.WriteString(pathSite(dialect, tt.upstream, "", b.trusting(p)))
			}
			s := startGuarded(t, site.String())
			for dialect, p := range proxies {
				// The client's Host and what it asks for have no part in it.
				res, _, err := s.do("GET", "/"+dialect+"/", nil, http.Header{"X-Upstream": {tt.value}, "X-Forwarded-Host": {"evil.test"}})
				if err != nil || res.StatusCode != 502 {
					t.Fatalf("%s: %v, %v", dialect, res, err)
				}
				if got := p.Targets(); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("%s was asked for %q, want %q", dialect, got, tt.want)
				}
				if seen := p.Seen(); len(seen) == 1 && dialect != "socks5" && seen[0].Host != tt.want {
					t.Errorf("%s: C18: Host %q", dialect, seen[0].Host)
				}
			}
		})
	}
	t.Run("C20_zone", func(t *testing.T) {
		b := newBed(t)
		const zoned = "[fe80::1%eth0]:443"
		var site strings.Builder
		for _, dialect := range append(slices.Clone(httpDialects), "socks5") {
			site.WriteString(pathSite(dialect, "{http.request.header.X-Upstream}", "lb_retries 2", b.via(dialect)))
		}
		site.WriteString(pathSite("fixed", zoned, "", b.via("http")))
		site.WriteString(pathSite("bypassed", zoned, "", b.via("http")+"\ndial_timeout 100ms\nbypass fe80::/10"))
		site.WriteString(pathSite("bypassed-exactly", zoned, "", b.via("http")+"\ndial_timeout 100ms\nbypass fe80::1"))
		site.WriteString(pathSite("not-bypassed", zoned, "", b.via("http")+"\nbypass fe80::2 eth0 .eth0 private_ranges"))
		s := startGuarded(t, site.String())
		for path, code := range map[string]string{
			"http": "target_invalid", "https": "target_invalid", "h2": "target_invalid", "socks5": "target_invalid", "fixed": "target_invalid",
			"bypassed": "origin_dial_", "bypassed-exactly": "origin_dial_", "not-bypassed": "target_invalid",
		} {
			res, _, err := s.do("GET", "/"+path+"/", nil, http.Header{"X-Upstream": {zoned}})
			if err != nil || res.StatusCode < 502 {
				t.Errorf("%s: %v, %v", path, res, err)
			}
			e := s.failures()
			if got, _ := e[len(e)-1]["code"].(string); !strings.HasPrefix(got, code) {
				t.Errorf("%s: code %s, want %s", path, got, code)
			}
		}
		for dialect, p := range b.proxies {
			if n := p.Accepted(); n != 0 {
				t.Errorf("%s: %d connections", dialect, n)
			}
		}
	})
}

// TestConnectRequestLine looks at the bytes of CONNECT: they are the upstream's, whatever Host the client names.
func TestConnectRequestLine(t *testing.T) {
	t.Run("C18_bytes", func(t *testing.T) {
		b := newBed(t)
		for scheme, target := range map[string]string{"http": "origin.test:80", "h2c": "origin.test:80", "https": "origin.test:443"} {
			via, peer := b.scripted("http", "<- \"HTTP/1.1 503 No\\r\\n\\r\\n\"\n-> eof")
			s := startGuarded(t, pathSite("x", scheme+"://origin.test", "header_up Host other.test", via))
			if res, _, err := s.do("GET", "/x/", nil, nil); err != nil || res.StatusCode != 502 {
				t.Errorf("%v, %v", res, err)
			}
			if got, want := string(peer.Heard(0)), fmt.Sprintf("CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target); got != want {
				t.Errorf("%s: the proxy heard %q, want %q", scheme, got, want)
			}
		}
	})
}

// TestNamesGoToTheProxy has a DNS server that would know every name.
func TestNamesGoToTheProxy(t *testing.T) {
	t.Run("C19_no_lookup", func(t *testing.T) {
		b := newBed(t)
		dns, asked := watchDNS(t)
		var site strings.Builder
		for _, way := range []string{"http", "https", "h2", "socks5"} {
			words := b.via(way) + "\nresolvers " + dns
			site.WriteString(pathSite(way, "origin.test:"+port(t, b.origin.Plain), "", words))
			site.WriteString(pathSite(way+"-tls", "https://origin.test:"+port(t, b.origin.TLS), "", words+"\ntls_trust_pool file "+b.originCA))
			site.WriteString(pathSite(way+"-bypass", "origin.test:"+port(t, b.origin.Plain), "", words+"\nbypass 127.0.0.0/8 private_ranges other.test"))
		}
		s := startGuarded(t, site.String())
		for _, way := range []string{"http", "https", "h2", "socks5"} {
			for _, kind := range []string{"", "-tls", "-bypass"} {
				s.get("/"+way+kind+"/bytes/1", 200)
			}
			for _, seen := range b.proxies[way].Seen() {
				if !strings.HasPrefix(seen.Target, "origin.test:") || way == "socks5" && seen.AddrType != 3 {
					t.Errorf("%s was asked for %+v", way, seen)
				}
			}
		}
		if n := asked(); n != 0 {
			t.Errorf("the DNS server was asked %d times", n)
		}
		b.assertNoDirect()
	})
	t.Run("C19_bypass_by_name", func(t *testing.T) {
		b := newBed(t)
		dns, asked := watchDNS(t)
		s := startGuarded(t, pathSite("x", "origin.test:"+port(t, b.origin.Plain), "", b.via("http")+"\nresolvers "+dns+"\nbypass origin.test"))
		s.get("/x/bytes/1", 200)
		if n := b.proxies["http"].Accepted(); n != 0 || asked() == 0 {
			t.Errorf("%d connections to the proxy, %d questions", n, asked())
		}
	})
	t.Run("C19_dynamic_upstreams", func(t *testing.T) {
		b := newBed(t)
		dns := startDNS(t)
		plain, secure := port(t, b.origin.Plain), port(t, b.origin.TLS)
		trust := "\ntls_trust_pool file " + b.originCA
		var proxies []*testbed.Proxy
		for name, tt := range map[string]struct{ words, transport, want string }{
			// The lookup of SRV gives names, and it is the proxy's business to look them up; that of A gives addresses, as it says.
			"srv":        {"dynamic srv _p" + plain + "._tcp.service.test {\nresolvers " + dns + "\n}", "", "origin.test.:" + plain},
			"srv-tls":    {"dynamic srv _p" + secure + "._tcp.service.test {\nresolvers " + dns + "\n}", "tls" + trust, "origin.test.:" + secure},
			"a":          {"dynamic a origin.test " + plain + " {\nresolvers " + dns + "\n}", "", "127.0.0.1:" + plain},
			"srv-bypass": {"dynamic srv _p" + plain + "._tcp.service.test {\nresolvers " + dns + "\n}", "bypass 127.0.0.0/8", "origin.test.:" + plain},
		} {
			p := b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP, Hosts: map[string]string{"origin.test.": "127.0.0.1"}})
			s := startGuarded(t, pathSite("x", "", tt.words, "via "+p.URL()+"\n"+tt.transport))
			s.get("/x/bytes/1", 200)
			if got := p.Targets(); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("%s: the proxy was asked for %q, want %q", name, got, tt.want)
			}
			proxies = append(proxies, p)
		}
		b.assertNoDirectTo(proxies...)
	})
}
