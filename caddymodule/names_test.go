package caddymodule

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// absent is a name that nobody knows but the proxies of these tests.
const absent = "only-there.invalid"

// knowing are proxies of each dialect that know a name as this host.
func (b *bed) knowing(name string) map[string]*testbed.Proxy {
	proxies := make(map[string]*testbed.Proxy)
	for _, dialect := range append(slices.Clone(httpDialects), "socks5") {
		proxies[dialect] = b.proxy(testbed.ProxyConfig{
			Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Hosts: map[string]string{name: "127.0.0.1"},
		})
	}
	return proxies
}

// namedSites are a site for every protocol of the origin, by name, with active checks.
func (b *bed) namedSites(path, name, words string) string {
	trust := "\ntls_trust_pool file " + b.originCA + "\ntls_server_name origin.test"
	plain, secure := name+":"+port(b.t, b.origin.Plain), name+":"+port(b.t, b.origin.TLS)
	return pathSite(path+"-h1", plain, checks, words) + pathSite(path+"-h2c", "h2c://"+plain, checks, words) +
		pathSite(path+"-tls", "https://"+secure, checks, words+trust)
}

// TestNoLookup goes to a name that cannot be looked up here, while everything that this process looks up is watched.
func TestNoLookup(t *testing.T) {
	kinds := []string{"-h1", "-h2c", "-tls"}
	for name, scheme := range map[string]string{
		"S11_socks5": "socks5", "S11_socks5h": "socks5h", "S11_socks5_in_capitals": "SOCKS5", "C19_http": "http", "C19_https": "https", "C19_h2": "h2",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			dns, asked := watchEveryLookup(t)
			dialect := strings.TrimSuffix(strings.ToLower(scheme), "h")
			if scheme == "h2" {
				dialect = scheme
			}
			p := b.knowing(absent)[dialect]
			via := fmt.Sprintf("via {\nproxy %s://%s {\n%s\n}\n}", scheme, p.Addr, trustFor(dialect, "tls_trust_pool file "+b.proxyCA))
			site := b.namedSites("x", absent, via) + b.namedSites("own", absent, via+"\nresolvers "+dns) +
				b.namedSites("bypass", absent, via+"\nbypass 127.0.0.0/8 private_ranges other.test")
			if scheme == "socks5" {
				site += "handle_path /short/* {\nreverse_proxy " + absent + ":" + port(t, b.origin.Plain) + " {\ntransport tunnel " + p.URL() + "\n}\n}\n"
			}
			s := startGuarded(t, site)
			for _, kind := range kinds {
				for _, path := range []string{"x", "own", "bypass"} {
					s.get("/"+path+kind+"/bytes/1", 200)
				}
			}
			if scheme == "socks5" {
				s.get("/short/bytes/1", 200)
			}
			awaitTrue(t, "health checks", func() bool { return b.checked() >= 18 })
			if failed := s.logged("HTTP request failed"); len(failed) > 0 {
				t.Errorf("checks failed: %v", failed)
			}
			for _, r := range p.Seen() {
				if !strings.HasPrefix(r.Target, absent+":") || dialect == "socks5" && r.AddrType != 3 {
					t.Errorf("the proxy was asked for %s as type %d", r.Target, r.AddrType)
				}
			}
			if n := asked(); n != 0 {
				t.Errorf("%d questions to DNS", n)
			}
			b.assertNoDirectTo(p)
		})
	}
	t.Run("S11_refused_names", func(t *testing.T) {
		b := newBed(t)
		dns, asked := watchEveryLookup(t)
		var site string
		for _, reply := range []byte{1, 3, 4, 8} {
			p := b.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Misbehave: testbed.Misbehave{SOCKSReply: reply}})
			for _, more := range []string{"", "\nresolvers " + dns} {
				site += pathSite(fmt.Sprintf("%d-%d", reply, len(more)), "origin.test:"+port(t, b.origin.Plain), "lb_retries 2", "via "+p.URL()+more)
			}
		}
		s := startGuarded(t, site)
		for _, reply := range []byte{1, 3, 4, 8} {
			for _, n := range []int{0, len("\nresolvers " + dns)} {
				s.get(fmt.Sprintf("/%d-%d/bytes/1", reply, n), 502)
			}
		}
		if n := asked() + b.origin.Accepted(); n != 0 {
			t.Errorf("%d questions to DNS and connections to the origin", n)
		}
	})
	t.Run("S11_farther_hops", func(t *testing.T) {
		b := newBed(t)
		_, asked := watchEveryLookup(t)
		first := b.knowing(absent)
		s := startGuarded(t, pathSite("x", absent+":"+port(t, b.origin.Plain), "",
			"via "+first["socks5"].URL()+"\nthen http://"+net.JoinHostPort(absent, port(t, first["http"].Addr))))
		s.get("/x/bytes/1", 200)
		if n := asked(); n != 0 {
			t.Errorf("%d questions to DNS", n)
		}
	})
	// What is counted above would be counted.
	t.Run("S11_direct_for_comparison", func(t *testing.T) {
		b := newBed(t)
		dns, asked := watchEveryLookup(t)
		s := startGuarded(t, pathSite("x", absent+":1", "", "via direct")+pathSite("own", absent+":1", "", "via direct\nresolvers "+dns))
		for _, path := range []string{"/x/", "/own/"} {
			before := asked()
			s.get(path, 502)
			if asked() == before {
				t.Errorf("%s: no question to DNS", path)
			}
		}
		b.assertNoDirect()
	})
}

// TestLongNames takes the upstream from the client. No name is cut, and what is too long goes nowhere.
func TestLongNames(t *testing.T) {
	for name, host := range map[string]string{
		"S06_256": strings.Repeat("n", 256), "S06_257": strings.Repeat("n", 257), "S06_511": strings.Repeat("n", 511),
		"S06_512_like_an_address": strings.Repeat("n", 512-len("127.0.0.1")) + "127.0.0.1", "S06_8_KiB": strings.Repeat("n.", 4<<10),
		"S06_256_that_ends_in_origin": strings.Repeat("n", 256) + "origin.test", "S06_in_Unicode": strings.Repeat("ü.", 80) + "test",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			dns, asked := watchEveryLookup(t)
			var site string
			for _, way := range bedWays {
				site += pathSite(way, "{http.request.header.X-Upstream}:"+port(t, b.origin.Plain), "lb_retries 2", b.via(way)+"\nresolvers "+dns)
			}
			s := startGuarded(t, site)
			for i, way := range bedWays {
				for j, method := range []string{"GET", "POST"} {
					res, body, err := s.do(method, "/"+way+"/", strings.NewReader("body"), http.Header{"X-Upstream": {host}})
					if err != nil || res.StatusCode != 502 {
						t.Fatalf("%s: %v, %v", way, res, err)
					}
					assertNothingOfProxy(t, res, body)
					e := s.failures()
					if len(e) < 2*i+j+1 || e[len(e)-1]["code"] != "target_too_long" {
						t.Errorf("%s: logged %.300v", way, e)
					}
				}
				if p := b.proxies[way]; p != nil && p.Accepted() != 0 {
					t.Errorf("%s: %d connections to the proxy", way, p.Accepted())
				}
			}
			if n := asked() + b.origin.Accepted(); n != 0 {
				t.Errorf("%d questions to DNS and connections to the origin", n)
			}
		})
	}
	t.Run("S06_255_is_whole", func(t *testing.T) {
		b := newBed(t)
		host := strings.Repeat("n", 255)
		proxies := b.knowing(host)
		var site string
		for dialect, p := range proxies {
			site += pathSite(dialect, "{http.request.header.X-Upstream}:"+port(t, b.origin.Plain), "", b.trusting(p))
		}
		s := startGuarded(t, site)
		for dialect, p := range proxies {
			res, _, err := s.do("GET", "/"+dialect+"/bytes/1", nil, http.Header{"X-Upstream": {host}})
			if err != nil || res.StatusCode != 200 || !slices.Equal(p.Targets(), []string{net.JoinHostPort(host, port(t, b.origin.Plain))}) {
				t.Errorf("%s: %v, %v; asked for %q", dialect, res, err, p.Targets())
			}
		}
	})
}

// TestSOCKSTargets looks at what a SOCKS server is asked for.
func TestSOCKSTargets(t *testing.T) {
	for name, tt := range map[string]struct {
		upstream, value, want string // value is of the request's X-Upstream
		kind                  byte
	}{
		"S08_IPv4":                    {"192.0.2.1:81", "", "192.0.2.1:81", 1},
		"S08_IPv6":                    {"[2001:db8::1]:81", "", "[2001:db8::1]:81", 4},
		"S08_IPv6_by_placeholder":     {"{http.request.header.X-Upstream}", "[2001:DB8::1]:81", "[2001:db8::1]:81", 4},
		"S08_IPv4_in_IPv6":            {"{http.request.header.X-Upstream}", "[::ffff:192.0.2.1]:81", "192.0.2.1:81", 1},
		"S08_zone":                    {"{http.request.header.X-Upstream}", "[fe80::1%eth0]:81", "", 0},
		"S08_zone_of_a_fixed_address": {"[fe80::1%eth0]:81", "", "", 0},
		"S12_http":                    {"http://" + absent, "", absent + ":80", 3},
		"S12_https":                   {"https://" + absent, "", absent + ":443", 3},
		"S12_h2c":                     {"h2c://" + absent, "", absent + ":80", 3},
		"S12_bare":                    {absent, "", absent + ":80", 3},
		"S12_by_placeholder":          {"{http.request.header.X-Upstream}", absent, absent + ":80", 3},
		"S12_IPv6":                    {"https://[2001:db8::1]", "", "[2001:db8::1]:443", 4},
		"S12_port_is_kept":            {"https://" + absent + ":8443", "", absent + ":8443", 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			p := b.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Allow: func(string) bool { return false }})
			s := startGuarded(t, pathSite("x", tt.upstream, "", "via "+p.URL()))
			res, _, err := s.do("GET", "/x/", nil, http.Header{"X-Upstream": {tt.value}})
			if err != nil || res.StatusCode != 502 {
				t.Fatalf("%v, %v", res, err)
			}
			if tt.want == "" {
				s.loggedCode(t, "target_invalid", 1)
				if n := p.Accepted(); n != 0 {
					t.Errorf("%d connections", n)
				}
				return
			}
			if seen := p.Seen(); len(seen) != 1 || seen[0].Target != tt.want || seen[0].AddrType != tt.kind {
				t.Errorf("asked for %+v, want %s as type %d", seen, tt.want, tt.kind)
			}
		})
	}
	t.Run("S12_TLS_by_placeholder", func(t *testing.T) {
		b := newBed(t)
		p := b.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Allow: func(string) bool { return false }})
		s := startGuarded(t, pathSite("x", "{http.request.header.X-Upstream}", "", "via "+p.URL()+"\ntls"))
		if res, _, err := s.do("GET", "/x/", nil, http.Header{"X-Upstream": {absent}}); err != nil || res.StatusCode != 502 {
			t.Fatalf("%v, %v", res, err)
		}
		if got := p.Targets(); !slices.Equal(got, []string{absent + ":443"}) {
			t.Errorf("asked for %q", got)
		}
	})
}
