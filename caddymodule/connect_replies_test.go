package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestConnectReplies looks at what a browser, the proxy and the log get of answers to CONNECT that open no tunnel.
func TestConnectReplies(t *testing.T) {
	methods := []string{"GET", "POST"}
	t.Run("C06_nothing_reaches_the_browser", func(t *testing.T) {
		b := newBed(t)
		var site strings.Builder
		paths := make(map[string]string) // their methods
		for _, dialect := range httpDialects {
			for status, field := range map[int][2]string{
				300: {"location", "/leak"}, 302: {"location", "http://leak.test/"}, 304: {"etag", "leak"}, 401: {"www-authenticate", "Basic realm=leak"},
				403: {"content-type", "text/html"}, 407: {"proxy-authenticate", "Basic realm=leak"}, 502: {"retry-after", "1"},
			} {
				for _, method := range methods {
					for scheme, upstream := range map[string]string{"http": b.origin.Plain, "https": "https://" + b.origin.TLS} {
						via, _ := b.scripted(dialect, answers(dialect, status, field[0], field[1]))
						name := fmt.Sprintf("%s-%d-%s-%s", dialect, status, method, scheme)
						site.WriteString(pathSite(name, upstream, "", via))
						paths["/"+name+"/"] = method
					}
				}
			}
		}
		s := startGuarded(t, site.String())
		for path, method := range paths {
			res, body, err := s.do(method, path, strings.NewReader("body"), http.Header{"Cookie": {"a=b"}})
			if err != nil || res.StatusCode != 502 {
				t.Fatalf("%s: %v, %v", path, res, err)
			}
			assertNothingOfProxy(t, res, body)
		}
		if n := b.origin.Accepted(); n != 0 {
			t.Errorf("the origin accepted %d connections", n)
		}
	})
	for name, tt := range map[string]struct {
		status             int
		field, value, code string
	}{
		"C07_401_challenge":     {401, "www-authenticate", "Basic realm=leak", "proxy_connect_refused"},
		"C08_407_without_login": {407, "proxy-authenticate", "Basic realm=leak", "proxy_auth_required"},
	} {
		t.Run(name, func(t *testing.T) {
			// The browser has a login at the origin, which is none of the proxy's business.
			const login = "Basic b3JpZ2luOmxlYWs="
			b := newBed(t)
			for _, dialect := range httpDialects {
				for _, method := range methods {
					via, peer := b.scripted(dialect, answers(dialect, tt.status, tt.field, tt.value))
					s := startGuarded(t, pathSite("x", "https://"+b.origin.TLS, "", via))
					res, body, err := s.do(method, "/x/", strings.NewReader("body"), http.Header{"Authorization": {login}, "Proxy-Authorization": {login}})
					if err != nil || res.StatusCode != 502 {
						t.Fatalf("%s: %v, %v", dialect, res, err)
					}
					assertNothingOfProxy(t, res, body)
					s.loggedCode(t, tt.code, 1)
					if n := peer.Accepted(); n != 1 {
						t.Errorf("%s %s: %d connections", dialect, method, n)
					}
					if heard := string(peer.Heard(0)); strings.Contains(heard, login) || strings.Count(heard, "CONNECT") > 1 {
						t.Errorf("%s: the proxy heard %q", dialect, heard)
					}
				}
			}
		})
	}
	t.Run("C08_407_cut", func(t *testing.T) {
		b := newBed(t)
		via, peer := b.scripted("http", "<- \"HTTP/1.1 407 Auth\\r\\nProxy-Authenticate: Basic realm=leak\\r\\n\"\nclose")
		s := startGuarded(t, pathSite("x", b.origin.Plain, "", via))
		for i, method := range methods {
			res, body, err := s.do(method, "/x/", strings.NewReader("body"), nil)
			if err != nil || res.StatusCode != 502 {
				t.Fatalf("%v, %v", res, err)
			}
			assertNothingOfProxy(t, res, body)
			s.loggedCode(t, "proxy_auth_required", i+1)
			if n := peer.Accepted(); n != i+1 {
				t.Errorf("%s: %d connections in all", method, n)
			}
		}
	})
	t.Run("C10_closes_at_once", func(t *testing.T) {
		b := newBed(t)
		for _, dialect := range httpDialects {
			for retries, want := range map[string]int{"": 1, "lb_retries 2": 3} {
				peer := script.Listen(t, "close")
				via := fmt.Sprintf("via %s://%s", dialect, peer.Addr)
				s := startGuarded(t, pathSite("x", b.origin.Plain, retries, via))
				for i, method := range methods { // before a byte of the request was sent, both are the same
					if res, _, err := s.do(method, "/x/", strings.NewReader("body"), nil); err != nil || res.StatusCode != 502 {
						t.Errorf("%s: %v, %v", dialect, res, err)
					}
					if n := peer.Accepted(); n != want*(i+1) {
						t.Errorf("%s %s, %q: %d connections in all, want %d", method, dialect, retries, n, want*(i+1))
					}
				}
			}
		}
	})
}

// TestConnectSilence has proxies that read CONNECT and never answer.
func TestConnectSilence(t *testing.T) {
	t.Run("C12_client_goes", func(t *testing.T) {
		b := newBed(t)
		for _, dialect := range []string{"http", "https"} {
			via, peer := b.scripted(dialect, "-> eof")
			s := startGuarded(t, pathSite("x", b.origin.Plain, "lb_retries 3", via))
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/x/", nil)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() {
				_, err := s.client().Do(req)
				done <- err
			}()
			awaitTrue(t, "CONNECT", func() bool { return strings.Contains(string(peer.Heard(0)), "\r\n\r\n") })
			cancel()
			<-done
			peer.Wait()
			if n := peer.Accepted(); n != 1 {
				t.Errorf("%s: %d connections", dialect, n)
			}
			if e := s.awaitLogged("handled request"); e["status"] != float64(499) {
				t.Errorf("%s: status %v", dialect, e["status"])
			}
		}
	})
	t.Run("C12_tunnel_timeout", func(t *testing.T) {
		b := newBed(t)
		for _, dialect := range httpDialects {
			end := "-> eof"
			if dialect == "h2" {
				end = "-> RST_STREAM 1 CANCEL\nclose"
			}
			via, peer := b.scripted(dialect, end)
			s := startGuarded(t, pathSite("x", b.origin.Plain, "", via+"\ntunnel_timeout 300ms"))
			if res, _, err := s.do("GET", "/x/", nil, nil); err != nil || res.StatusCode != 504 {
				t.Errorf("%s: %v, %v", dialect, res, err)
			}
			s.loggedCode(t, "proxy_tunnel_timeout", 1)
			peer.Wait()
		}
	})
}

// TestTunnelThatEnds has proxies that say 200 and then close, as some do when they cannot reach the origin.
func TestTunnelThatEnds(t *testing.T) {
	const ok = "<- \"HTTP/1.1 200 OK\\r\\n\\r\\n\"\n"
	ends := map[string]string{"http": ok + "close", "https": ok + "close", "h2": "<- HEADERS 1 :status=200 END_STREAM\n-> rest"}
	secure := func(b *bed) string { return "\nversions 1.1\ntls_trust_pool file " + b.proxyCA }

	t.Run("C25_before_a_byte_of_the_request", func(t *testing.T) {
		b := newBed(t)
		for _, dialect := range []string{"http", "https"} {
			for word, begin := range map[string]string{"": "", "proxy_protocol v2": "-> 28 bytes\n"} {
				via, peer := b.scripted(dialect, ends[dialect], ends[dialect], ok+begin+
					"tls http/1.1\n-> head \"POST / HTTP/1.1\"\n-> \"body\"\n<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\ndone\"\n-> eof")
				s := startGuarded(t, pathSite("x", "https://127.0.0.1:9", "lb_retries 2", via+"\n"+word+secure(b)))
				res, body, err := s.do("POST", "/x/", strings.NewReader("body"), nil)
				if err != nil || res.StatusCode != 200 || string(body) != "done" || peer.Accepted() != 3 {
					t.Errorf("%s %s: %v, %q, %v after %d connections", dialect, word, res, body, err, peer.Accepted())
				}
			}
		}
	})
	t.Run("C25_without_retries", func(t *testing.T) {
		b := newBed(t)
		for _, dialect := range httpDialects {
			via, peer := b.scripted(dialect, ends[dialect])
			s := startGuarded(t, pathSite("x", "https://127.0.0.1:9", "", via+secure(b)))
			res, body, err := s.do("POST", "/x/", strings.NewReader("body"), nil)
			if err != nil || res.StatusCode != 502 || len(body) > 0 || peer.Accepted() != 1 {
				t.Errorf("%s: %v, %q, %v after %d connections", dialect, res, body, err, peer.Accepted())
			}
			if e := s.failures()[0]; e["stage"] != "origin_tls" || e["hop"] != "" {
				t.Errorf("%s: logged %v", dialect, e)
			}
		}
	})
	t.Run("C25_K04_after_the_request", func(t *testing.T) {
		b := newBed(t)
		for upstream, asked := range map[string]string{
			"http://127.0.0.1:9": "-> head \"%s / HTTP/1.1\"\nclose", "h2c://127.0.0.1:9": "h2\n-> HEADERS 1 :method=%s\nclose",
			"https://127.0.0.1:9": "tls http/1.1\n-> head \"%s / HTTP/1.1\"\nclose",
		} {
			peers := make(map[string]*script.Peer) // by method
			site := ""
			for _, method := range []string{"POST", "DELETE", "PATCH", "GET"} {
				via, peer := b.scripted("http", ok+fmt.Sprintf(asked, method))
				if strings.HasPrefix(upstream, "https") {
					via += secure(b)
				}
				peers[method] = peer
				site += pathSite(method, upstream, "lb_retries 2", via)
			}
			s := startGuarded(t, site)
			for method, peer := range peers {
				if res, _, err := s.do(method, "/"+method+"/", nil, nil); err != nil || res.StatusCode != 502 {
					t.Errorf("%s %s: %v, %v", method, upstream, res, err)
				}
				peer.Wait()
				want := 1
				if method == "GET" { // which is safe
					want = 3
				}
				if n := peer.Accepted(); n != want {
					t.Errorf("%s %s: %d connections, want %d", method, upstream, n, want)
				}
			}
		}
	})
}
