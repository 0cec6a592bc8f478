package caddymodule

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// Pairs are pairs of routes to one origin, one for each way and variant, that differ in some setting of TLS.
type pairs struct {
	*server
	origin  *testbed.Origin
	proxies map[string]*testbed.Proxy
}

// startPairs starts the routes. Variants are what both routes of a pair have in their transport's block.
func (b *bed) startPairs(version uint16, d difference, variants ...string) *pairs {
	b.t.Helper()
	askCert := func(cfg *tls.Config) {
		cfg.MaxVersion = version
		cfg.ClientAuth, cfg.ClientCAs = tls.VerifyClientCertIfGiven, b.origin.Authority().Pool()
	}
	x := &pairs{proxies: make(map[string]*testbed.Proxy)}
	var err error
	x.origin, err = testbed.NewOrigin(testbed.OriginConfig{
		Authority: b.origin.Authority(), ConfigureTLS: func(_ string, cfg *tls.Config) { askCert(cfg) },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { x.origin.Close() })
	var site string
	for _, way := range bedWays {
		hop := func(string) string { return "via direct" }
		if way != "direct" {
			p := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(way), Authority: b.proxies["https"].Authority(), ConfigureTLS: askCert})
			x.proxies[way] = p
			hop = func(words string) string {
				return fmt.Sprintf("via {\nproxy %s {\n%s\n}\n}", p.URL(), trustFor(way, "tls_trust_pool file "+b.proxyCA+"\n"+words))
			}
		}
		for i, variant := range variants {
			for route, words := range map[string][2]string{"a": {hop(d.hopA), d.a}, "b": {hop(d.hopB), d.b}} {
				site += pathSite(pairPath(way, i, route), "https://"+x.origin.TLS, "", strings.Join(words[:], "\n")+"\n"+variant)
			}
		}
	}
	x.server = startGuarded(b.t, site)
	return x
}

func pairPath(way string, variant int, route string) string {
	return fmt.Sprintf("%s-%d-%s", way, variant, route)
}

// sawOf sends a request by a route and returns what the origin saw; false if it is answered 502.
func (s *server) sawOf(path string, header http.Header) (saw testbed.Saw, ok bool) {
	s.t.Helper()
	res, body, err := s.do("GET", "/"+path+"/headers", nil, header)
	switch {
	case err != nil || res.StatusCode != 200 && res.StatusCode != 502:
		s.t.Fatalf("%s: %v %v", path, res, err)
	case res.StatusCode == 502:
		return saw, false
	}
	if err := json.Unmarshal(body, &saw); err != nil {
		s.t.Fatal(err)
	}
	return saw, true
}

// A difference is one setting in which routes differ, and what the origin sees of it.
type difference struct {
	a, b, hopA, hopB string // words of the transports' blocks, and of those of their proxies
	shows            func(testbed.Saw) string
	wantA, wantB     string // wantB "refused": the route's requests fail
}

// clientAuth is the word for a client's certificate with this name, from the origin's authority.
func (b *bed) clientAuth(name string) string {
	return "tls_client_auth " + clientCert(b.t, b.dir, b.origin.Authority(), name)
}

// differences are those of the origin's leg.
func (b *bed) differences() map[string]difference {
	roots := "tls_trust_pool file " + b.originCA + "\n"
	shownCert := func(saw testbed.Saw) string { return saw.ClientCert }
	shownName := func(saw testbed.Saw) string { return saw.ServerName }
	served := func(testbed.Saw) string { return "served" }
	return map[string]difference{
		"certificate":    {a: roots + b.clientAuth("alice"), b: roots + b.clientAuth("bob"), shows: shownCert, wantA: "CN=alice", wantB: "CN=bob"},
		"no_certificate": {a: roots + b.clientAuth("alice"), b: roots, shows: shownCert, wantA: "CN=alice"},
		"name":           {a: roots + "tls_server_name origin.test", b: roots + "tls_server_name localhost", shows: shownName, wantA: "origin.test", wantB: "localhost"},
		"roots":          {a: roots, b: "tls_trust_pool file " + b.proxyCA, shows: served, wantA: "served", wantB: "refused"},
		"verification":   {a: "tls_insecure_skip_verify", b: "tls_trust_pool file " + b.proxyCA, shows: served, wantA: "served", wantB: "refused"},
		"verified_name":  {a: roots + "tls_server_name localhost", b: roots + "tls_server_name other.test", shows: served, wantA: "served", wantB: "refused"},
	}
}

// assertRoute sends a request by a route and checks what the origin saw of it.
func (s *server) assertRoute(path string, d difference) (saw testbed.Saw) {
	s.t.Helper()
	want := d.wantA
	if strings.HasSuffix(path, "b") {
		want = d.wantB
	}
	saw, ok := s.sawOf(path, nil)
	if got := d.shows(saw); ok != (want != "refused") || ok && got != want {
		s.t.Errorf("%s: served %v, the origin saw %q, want %q", path, ok, got, want)
	}
	return saw
}

// TestRoutesShareNoConnection alternates between two routes that differ in one setting of TLS, with connections kept.
func TestRoutesShareNoConnection(t *testing.T) {
	for id, name := range map[string]string{
		"T07_certificate": "certificate", "T07_no_certificate": "no_certificate", "T07_name": "name", "T07_roots": "roots",
		"T07_verification": "verification", "T07_verified_name": "verified_name",
	} {
		t.Run(id, func(t *testing.T) {
			b := newBed(t)
			d := b.differences()[name]
			variants := []string{"versions 1.1", "versions 1.1 2"}
			x := b.startPairs(tls.VersionTLS13, d, variants...)
			for _, way := range bedWays {
				for i := range variants {
					var mu sync.Mutex
					routes := make(map[string]string) // by connection
					fetch := func(route string) {
						saw := x.assertRoute(pairPath(way, i, route), d)
						mu.Lock()
						defer mu.Unlock()
						if other, ok := routes[saw.RemoteAddr]; ok && other != route && saw.RemoteAddr != "" {
							t.Errorf("%s: routes share the connection %s", way, saw.RemoteAddr)
						}
						routes[saw.RemoteAddr] = route
					}
					for range 3 {
						fetch("a")
						fetch("b")
					}
					var all sync.WaitGroup
					for range 5 {
						all.Go(func() { fetch("a") })
						all.Go(func() { fetch("b") })
					}
					all.Wait()
				}
			}
		})
	}
	t.Run("T07_name_within_one_transport", func(t *testing.T) {
		b := newBed(t)
		for _, way := range bedWays {
			for _, versions := range []string{"versions 1.1", "versions 1.1 2"} {
				s := startGuarded(t, pathSite("x", "https://"+b.origin.TLS, "", b.via(way)+"\n"+versions+"\ntls_server_name {header.X-Name}\ntls_trust_pool file "+b.originCA))
				for _, name := range []string{"origin.test", "localhost", "other.test", "origin.test", "localhost", "other.test"} {
					saw, ok := s.sawOf("x", http.Header{"X-Name": {name}})
					if ok != (name != "other.test") || ok && saw.ServerName != name {
						t.Errorf("%s: served %v for %s on a connection for %s", way, ok, name, saw.ServerName)
					}
				}
			}
		}
	})
	t.Run("T07_certificate_for_the_proxy", func(t *testing.T) {
		b := newBed(t)
		d := difference{hopA: b.clientAuth("alice"), hopB: b.clientAuth("bob")}
		d.a = "tls_trust_pool file " + b.originCA
		d.b = d.a
		x := b.startPairs(tls.VersionTLS13, d, "versions 1.1 2")
		for _, way := range []string{"https", "h2"} {
			for range 3 {
				for route, want := range map[string]string{"a": "CN=alice", "b": "CN=bob"} {
					saw, _ := x.sawOf(pairPath(way, 0, route), nil)
					if got := shownToProxy(x.proxies[way], saw); got != want {
						t.Errorf("%s: route %s went to the proxy as %q, want %q", way, route, got, want)
					}
				}
			}
			if n := x.proxies[way].Accepted(); n != 2 {
				t.Errorf("%s: %d connections to the proxy, want 2", way, n)
			}
		}
	})
}

// shownToProxy is the certificate on the connection to the proxy whose tunnel a request came out of.
func shownToProxy(p *testbed.Proxy, saw testbed.Saw) string {
	for _, r := range p.Seen() {
		for _, peer := range p.Peers() {
			if r.LocalAddr == saw.RemoteAddr && r.RemoteAddr == peer.RemoteAddr {
				return peer.TLS.ClientCert
			}
		}
	}
	return "no connection"
}

// TestRoutesShareNoTicket does the same with a connection for each request, so that TLS sessions are resumed: a route resumes its
// own sessions only, and the origin still sees who it is.
func TestRoutesShareNoTicket(t *testing.T) {
	for id, name := range map[string]string{
		"T08_certificate": "certificate", "T08_no_certificate": "no_certificate", "T08_name": "name", "T08_roots": "roots",
		"T08_verification": "verification", "T08_verified_name": "verified_name",
	} {
		t.Run(id, func(t *testing.T) {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				b := newBed(t)
				d := b.differences()[name]
				x := b.startPairs(version, d, "keepalive off")
				for _, way := range bedWays {
					for i, route := range []string{"a", "a", "b", "b", "a", "b"} {
						saw := x.assertRoute(pairPath(way, 0, route), d)
						own := i != 0 && i != 2 // the route has a ticket
						if refused := route == "b" && d.wantB == "refused"; !refused && saw.Resumed != own {
							t.Errorf("%s, %s: request %d, by route %s: resumed %v", way, tls.VersionName(version), i, route, saw.Resumed)
						}
					}
				}
			}
		})
	}
	t.Run("T08_login_at_the_proxy", func(t *testing.T) {
		for _, way := range bedWays[1:] {
			b := newBed(t)
			hop := "auth basic {header.X-User} x\n" + trustFor(way, "tls_trust_pool file "+b.proxyCA)
			p := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(way), Authority: b.proxies["https"].Authority()})
			s := startGuarded(t, pathSite("x", "https://"+b.origin.TLS, "", fmt.Sprintf("via {\nproxy %s {\n%s\n}\n}\nkeepalive off\ntls_trust_pool file %s", p.URL(), hop, b.originCA)))
			for i, user := range []string{"alice", "alice", "bob", "bob", "alice"} {
				connections := p.Accepted()
				saw, _ := s.sawOf("x", http.Header{"X-User": {user}})
				own := i != 0 && i != 2
				if saw.Resumed != own {
					t.Errorf("%s: request %d, of %s: resumed %v", way, i, user, saw.Resumed)
				}
				if way == "https" && p.Peers()[connections].TLS.Resumed != own {
					t.Errorf("%s: request %d, of %s: resumed %v with the proxy", way, i, user, !own)
				}
			}
		}
	})
	t.Run("T08_name_of_one_transport", func(t *testing.T) {
		b := newBed(t)
		for _, way := range bedWays {
			s := startGuarded(t, pathSite("x", "https://"+b.origin.TLS, "", b.via(way)+"\nkeepalive off\ntls_server_name {header.X-Name}\ntls_trust_pool file "+b.originCA))
			for i, name := range []string{"origin.test", "origin.test", "localhost", "localhost", "origin.test"} {
				if saw, _ := s.sawOf("x", http.Header{"X-Name": {name}}); saw.Resumed != (i != 0 && i != 2) || saw.ServerName != name {
					t.Errorf("%s: request %d for %s: resumed %v as %s", way, i, name, saw.Resumed, saw.ServerName)
				}
			}
			if res, _, err := s.do("GET", "/x/headers", nil, http.Header{"X-Name": {"other.test"}}); err != nil || res.StatusCode != 502 {
				t.Errorf("%s: %v %v", way, res, err)
			}
		}
	})
	t.Run("T08_certificate_of_the_next_config", func(t *testing.T) {
		b := newBed(t)
		for name, cn := range map[string]string{"alice": "CN=alice", "bob": "CN=bob"} {
			words := b.via("http") + "\nkeepalive off\ntls_trust_pool file " + b.originCA +
				"\n" + b.clientAuth(name)
			s := startGuarded(t, pathSite("x", "https://"+b.origin.ClientCert, "", words))
			for i := range 2 {
				if saw, _ := s.sawOf("x", nil); saw.Resumed != (i > 0) || saw.ClientCert != cn {
					t.Errorf("%s: request %d: resumed %v as %s", name, i, saw.Resumed, saw.ClientCert)
				}
			}
		}
	})
}
