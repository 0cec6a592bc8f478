package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// seen asks the origin what it saw.
func (s *server) seen(header http.Header) testbed.Saw {
	s.t.Helper()
	res, body, err := s.do("GET", "/headers", nil, header)
	if err != nil || res.StatusCode != 200 {
		s.t.Fatalf("%v %v", res, err)
	}
	var saw testbed.Saw
	if err := json.Unmarshal(body, &saw); err != nil {
		s.t.Fatal(err)
	}
	return saw
}

// TestClientCertificate presents a client certificate to the origin through every proxy; without it the origin refuses.
func TestClientCertificate(t *testing.T) {
	for _, way := range bedWays {
		t.Run(way, func(t *testing.T) {
			b := newBed(t)
			cert, key, err := b.origin.ClientCertFiles(b.dir)
			if err != nil {
				t.Fatal(err)
			}
			site := func(words string) string {
				return fmt.Sprintf("reverse_proxy https://%s {\ntransport tunnel {\n%s\ntls_trust_pool file %s\n%s\n}\n}",
					b.origin.ClientCert, b.via(way), b.originCA, words)
			}
			s := startCaddy(t, "handle_path /with/* {\n"+site("tls_client_auth "+cert+" "+key)+"\n}\nhandle_path /without/* {\n"+site("")+"\n}")
			res, body, err := s.do("GET", "/with/headers", nil, nil)
			if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), `"client_cert": "CN=`) {
				t.Fatalf("with: %v %v %s", res, err, body)
			}
			if res, _, err := s.do("GET", "/without/headers", nil, nil); err != nil || res.StatusCode != 502 {
				t.Fatalf("without: %v %v", res, err)
			}
			if e := s.awaitLogged("request failed"); !strings.HasPrefix(fmt.Sprint(e["code"]), "origin_") {
				t.Errorf("logged %v", e)
			}
		})
	}
}

// TestLegsShareNothing checks that each leg's TLS has its own name and ALPN, and that credentials and headers of the
// CONNECT request stay there.
func TestLegsShareNothing(t *testing.T) {
	for _, way := range []string{"https", "h2"} {
		t.Run(way, func(t *testing.T) {
			b := newBed(t)
			_, port, _ := strings.Cut(b.proxies[way].Addr, ":")
			s := startCaddy(t, fmt.Sprintf(`reverse_proxy https://%s {
	transport tunnel {
		via {
			proxy %s://localhost:%s {
				auth basic %s %s
				header X-Team web
				header X-Method {method}
				tls_trust_pool file %s
			}
		}
		tls_server_name {header.X-Sni}
		tls_trust_pool file %s
	}
}`, b.origin.TLS, way, port, bedUser, bedPassword, b.proxyCA, b.originCA))
			saw := s.seen(http.Header{"X-Sni": {"origin.test"}, "Proxy-Authorization": {"Basic Y2xpZW50"}, "Cookie": {"a=b"}})
			if saw.ServerName != "origin.test" || saw.ALPN != "h2" {
				t.Errorf("the origin saw the name %q and ALPN %q", saw.ServerName, saw.ALPN)
			}
			for _, h := range []string{"Proxy-Authorization", "X-Team", "X-Method"} {
				if v := saw.Header.Get(h); v != "" {
					t.Errorf("%s: %s reached the origin", h, v)
				}
			}
			hello := b.proxies[way].Peers()[0].TLS
			wantALPN := map[string][]string{"https": {"http/1.1"}, "h2": {"h2"}}[way]
			if hello.ServerName != "localhost" || !slices.Equal(hello.Offered, wantALPN) {
				t.Errorf("the proxy saw the name %q and ALPN %q", hello.ServerName, hello.Offered)
			}
			r := b.proxies[way].Seen()[0]
			if r.Target != b.origin.TLS || r.Host != b.origin.TLS || r.User != bedUser || r.Password != bedPassword ||
				r.Header.Get("X-Team") != "web" || r.Header.Get("X-Method") != "GET" || r.Header.Get("Cookie") != "" || r.Early {
				t.Errorf("the proxy was asked %+v", r)
			}
			// A name that the certificate does not carry fails, and nothing is sent.
			if res, _, err := s.do("GET", "/headers", nil, http.Header{"X-Sni": {"other.test"}}); err != nil || res.StatusCode != 502 {
				t.Errorf("%v %v", res, err)
			}
			if e := s.awaitLogged("request failed"); e["code"] != "origin_cert_name_mismatch" {
				t.Errorf("logged %v", e)
			}
			// So does no name at all.
			if res, _, err := s.do("GET", "/headers", nil, nil); err != nil || res.StatusCode != 502 {
				t.Errorf("%v %v", res, err)
			}
			b.assertNoDirect()
		})
	}
}

// TestChain goes through two and three hops, each asked for the next.
func TestChain(t *testing.T) {
	b := newBed(t)
	socket := b.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Network: "unix"})
	b.proxies["socket"] = socket
	s := startCaddy(t, fmt.Sprintf(`reverse_proxy https://%s {
	transport tunnel {
		via %s
		then {
			proxy %s {
				tls_trust_pool file %s
			}
		}
		then %s
		tls_trust_pool file %s
	}
}`, b.origin.TLS, socket.URL(), b.proxies["h2"].URL(), b.proxyCA, b.proxies["http"].URL(), b.originCA))
	assertDown(t, s, 1<<20)
	assertUp(t, s, 1<<20, "HTTP/2.0")
	for name, next := range map[string]string{"socket": b.proxies["h2"].Addr, "h2": b.proxies["http"].Addr, "http": b.origin.TLS} {
		if targets := b.proxies[name].Targets(); len(targets) == 0 || targets[0] != next {
			t.Errorf("the %s proxy was asked for %v, want %s", name, targets, next)
		}
	}
	b.assertNoDirect()
}

// TestHostHeader checks that the Host header has no say in where the tunnel leads, and which Host the origin gets.
func TestHostHeader(t *testing.T) {
	b := newBed(t)
	s := startCaddy(t, b.site("http", "h1-cleartext", "", ""))
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/headers", nil)
	req.Host = "elsewhere.example:99"
	res, err := s.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if targets := b.proxies["http"].Targets(); len(targets) != 1 || targets[0] != b.origin.Plain {
		t.Errorf("CONNECT %v, want %s", targets, b.origin.Plain)
	}
	reqs := b.origin.Requests()
	if got := reqs[len(reqs)-1].Host; got != req.Host {
		t.Errorf("the origin got Host %q, want the client's %q", got, req.Host)
	}
}

// TestReuse checks that requests one after the other share a connection, and that a new one resumes the TLS session.
func TestReuse(t *testing.T) {
	for _, protocol := range bedProtocols {
		t.Run(protocol, func(t *testing.T) {
			b := newBed(t)
			s := startCaddy(t, b.site("http", protocol, "", ""))
			for range 5 {
				s.get("/bytes/1000", 200)
			}
			if n := len(b.proxies["http"].Seen()); n != 1 {
				t.Errorf("%d tunnels for five requests, want 1", n)
			}
			if protocol != "h1" && protocol != "h2" {
				return
			}
			b.origin.DropConns()
			for range 3 {
				if saw := s.seen(nil); !saw.Resumed {
					t.Error("the session was not resumed")
				}
			}
		})
	}
}

// TestUserAgent checks that a client without a User-Agent stays without, and that a health check has the one it has over `http`.
func TestUserAgent(t *testing.T) {
	b := newBed(t)
	s := startCaddy(t, b.site("http", "h1", "", ""))
	if ua, ok := s.seen(http.Header{"User-Agent": {""}}).Header["User-Agent"]; ok {
		t.Errorf("User-Agent %q was added", ua)
	}
	tr := b.transport("http", "h1")
	provision(t, tr)
	res, err := tr.RoundTrip(b.request(t, "h1", "/bytes/1"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	reqs := b.origin.Requests()
	if got := reqs[len(reqs)-1].Header.Get("User-Agent"); got != healthCheckAgent {
		t.Errorf("User-Agent %q", got)
	}
}
