package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// uploadBytes is more than is remembered of a body, so that only one that was never read can be sent whole; and less than
// what Caddy reads of a body that nobody wanted, so that its client gets the answer.
const uploadBytes = 150_000

// pathSite puts a reverse_proxy below a path of its own.
func pathSite(name, upstreams, proxyWords, transportWords string) string {
	return fmt.Sprintf("handle_path /%s/* {\nreverse_proxy %s {\n%s\ntransport tunnel {\n%s\n}\n}\n}\n", name, upstreams, proxyWords, transportWords)
}

// refusing is a proxy that refuses the first n tunnels.
func (b *bed) refusing(n int64, dialect testbed.Dialect) *testbed.Proxy {
	left := new(atomic.Int64)
	left.Store(n)
	return b.proxy(testbed.ProxyConfig{
		Dialect: dialect, Authority: b.proxies["https"].Authority(),
		Allow: func(string) bool { return left.Add(-1) < 0 },
	})
}

func (b *bed) trusting(p *testbed.Proxy) string {
	return fmt.Sprintf("via {\nproxy %s {\n%s\n}\n}", p.URL(), trustFor(string(p.Dialect), "tls_trust_pool file "+b.proxyCA))
}

// TestRetryBeforeOrigin posts through proxies that refuse at first. What never reached an origin is tried again as often
// as is configured, and arrives whole.
func TestRetryBeforeOrigin(t *testing.T) {
	for _, dialect := range []testbed.Dialect{testbed.HTTP, testbed.HTTPS, testbed.H2, testbed.SOCKS5} {
		t.Run("K04_refused_at_first_"+string(dialect), func(t *testing.T) {
			b := newBed(t)
			again, never := b.refusing(2, dialect), b.refusing(1<<20, dialect)
			other, err := testbed.NewOrigin(testbed.OriginConfig{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
			elsewhere := b.proxy(testbed.ProxyConfig{
				Dialect: dialect, Authority: b.proxies["https"].Authority(),
				Allow: func(target string) bool { return target != other.Plain },
			})
			s := startGuarded(t,
				pathSite("again", b.origin.Plain, "lb_retries 3", b.trusting(again))+
					pathSite("never", b.origin.Plain, "lb_retries 2", b.trusting(never))+
					pathSite("once", b.origin.Plain, "", b.trusting(never))+
					pathSite("second", other.Plain+" "+b.origin.Plain, "lb_policy first\nlb_retries 2\nfail_duration 1m", b.trusting(elsewhere)))

			assertUpload(t, s, "/again/upload")
			if n := len(again.Seen()); n != 3 {
				t.Errorf("asked %d times, want 3", n)
			}
			assertUpload(t, s, "/second/upload")
			if targets := elsewhere.Targets(); fmt.Sprint(targets) != fmt.Sprint([]string{other.Plain, b.origin.Plain}) {
				t.Errorf("asked for %v", targets)
			}
			if n := other.Accepted(); n != 0 {
				t.Errorf("the first upstream got %d connections", n)
			}
			for i, path := range []string{"/never/upload", "/once/upload"} {
				res, _, err := s.do("POST", path, testbed.PageReader(uploadBytes), nil)
				if err != nil || res.StatusCode != 502 {
					t.Errorf("%s: %v %v", path, res, err)
				}
				if n := len(never.Seen()); n != 3+i {
					t.Errorf("%s: asked %d times in all, want %d", path, n, 3+i)
				}
			}
			b.assertNoDirectTo(again, elsewhere)
		})
	}
}

func assertUpload(t *testing.T, s *server, path string) {
	t.Helper()
	res, body, err := s.do("POST", path, testbed.PageReader(uploadBytes), nil)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("%s: %v %v %s", path, res, err, body)
		return
	}
	var up testbed.Uploaded
	if err := json.Unmarshal(body, &up); err != nil || up.Bytes != uploadBytes || up.SHA256 != testbed.PageSum(uploadBytes) {
		t.Errorf("%s: the origin got %d bytes of %d: %v", path, up.Bytes, uploadBytes, err)
	}
}

// TestNoRetryAfterBodyRead posts to an origin that takes a part of the body and fails. The rest must not be sent again,
// however many retries are configured.
func TestNoRetryAfterBodyRead(t *testing.T) {
	for _, protocol := range bedProtocols {
		t.Run("K04_behind_a_byte_of_the_body_"+protocol, func(t *testing.T) {
			b := newBed(t)
			var asked atomic.Int64
			b.origin.Close()
			origin, err := testbed.NewOrigin(testbed.OriginConfig{
				Authority: b.origin.Authority(),
				Extra: map[string]http.Handler{"/half": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					io.ReadFull(r.Body, make([]byte, 1000))
					panic(http.ErrAbortHandler)
				})},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { origin.Close() })
			b.origin = origin
			s := startGuarded(t, b.site("socks5", protocol, "", "lb_retries 3"))
			for _, body := range []io.Reader{testbed.PageReader(uploadBytes), struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 2000))}} {
				asked.Store(0)
				res, _, err := s.do("POST", "/half", body, nil)
				if err != nil || res.StatusCode != 502 {
					t.Errorf("%v %v", res, err)
				}
				if n := asked.Load(); n != 1 {
					t.Errorf("the origin was asked %d times", n)
				}
			}
			for _, e := range s.failures() {
				if e["stage"] != "roundtrip" || e["hop"] != "" || !strings.HasPrefix(fmt.Sprint(e["code"]), "origin_") {
					t.Errorf("logged %v", e)
				}
			}
			b.assertNoDirect()
		})
	}
}

// TestClientGone lets clients go while the proxy is silent, and while the origin is. Nobody is blamed for it.
func TestClientGone(t *testing.T) {
	b := newBed(t)
	silent := b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP, Misbehave: testbed.Misbehave{Silent: testbed.AtRequest}})
	dark := b.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Misbehave: testbed.Misbehave{Silent: testbed.AtGreeting}})
	mute := b.proxy(testbed.ProxyConfig{Dialect: testbed.H2, Authority: b.proxies["h2"].Authority(), Misbehave: testbed.Misbehave{Silent: testbed.AtRequest}})
	const strikes = "fail_duration 1m\nlb_retries 3"
	s := startGuarded(t,
		pathSite("connect", b.origin.Plain, strikes, b.trusting(silent))+
			pathSite("greeting", b.origin.Plain, strikes, b.trusting(dark))+
			pathSite("stream", b.origin.Plain, strikes, b.trusting(mute))+
			pathSite("answer", b.origin.Plain, strikes, b.via("http"))+
			pathSite("answer-h2c", "h2c://"+b.origin.Plain, strikes, b.via("socks5")))

	arrived := func() int {
		return len(silent.Seen()) + int(dark.Accepted()) + len(mute.Seen()) + len(b.origin.Requests())
	}
	paths := []string{"/connect/bytes/1", "/greeting/bytes/1", "/stream/bytes/1", "/answer/broken/hang", "/answer-h2c/broken/hang"}
	var want []string
	for _, path := range paths {
		for _, method := range []string{"GET", "POST"} {
			ctx, cancel := context.WithCancel(t.Context())
			var body io.Reader
			client := s.client()
			if method == "POST" {
				body = strings.NewReader("a small body")
				// Over HTTP/1.1 the server sees its client go only once the body has been read, which is not before
				// there is a connection to the origin.
				client = h2cClient()
			}
			req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
			if err != nil {
				t.Fatal(err)
			}
			before := arrived()
			done := make(chan error)
			go func() {
				_, err := client.Do(req)
				done <- err
			}()
			awaitTrue(t, "the request to come as far as it can", func() bool { return arrived() > before })
			cancel()
			if err := <-done; err == nil {
				t.Errorf("%s %s: an answer", method, path)
			}
			client.CloseIdleConnections()
			want = append(want, method+" "+path)
			awaitTrue(t, "the access log", func() bool { return len(s.logged("handled request")) == len(want) })
		}
	}
	for _, e := range s.logged("handled request") {
		if e["status"] != float64(499) {
			t.Errorf("status %v of %v", e["status"], e["request"])
		}
	}
	if failures := s.failures(); len(failures) != 0 {
		t.Errorf("warned of %v", failures)
	}
	assertNoStrikes(t, s)
	awaitTrue(t, "the proxies' connections to end", func() bool { return silent.Conns()+dark.Conns() == 0 })
}

// h2cClient speaks HTTP/2 without TLS.
func h2cClient() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{DisableCompression: true, Protocols: protocols}}
}

// assertNoStrikes asks the admin API whether any upstream was blamed.
func assertNoStrikes(t *testing.T, s *server) {
	t.Helper()
	res, err := http.Get("http://" + s.admin + "/reverse_proxy/upstreams")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var upstreams []struct {
		Address string `json:"address"`
		Fails   int    `json:"fails"`
	}
	if err := json.NewDecoder(res.Body).Decode(&upstreams); err != nil || len(upstreams) == 0 {
		t.Fatalf("upstreams %v: %v", upstreams, err)
	}
	for _, u := range upstreams {
		if u.Fails != 0 {
			t.Errorf("%s has %d failures", u.Address, u.Fails)
		}
	}
}

// awaitTrue waits until cond holds.
func awaitTrue(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// TestProxyDiesInBody cuts tunnels in the middle of a response: the client must see that it is not whole.
func TestProxyDiesInBody(t *testing.T) {
	for _, dialect := range []testbed.Dialect{testbed.HTTP, testbed.HTTPS, testbed.H2, testbed.SOCKS5} {
		t.Run(string(dialect), func(t *testing.T) {
			b := newBed(t)
			p := b.proxy(testbed.ProxyConfig{Dialect: dialect, Authority: b.proxies["https"].Authority(), Misbehave: testbed.Misbehave{CutAfter: 40_000}})
			var site strings.Builder
			for _, protocol := range bedProtocols {
				upstream, words := b.upstream(protocol)
				site.WriteString(pathSite(protocol, upstream, "", b.trusting(p)+"\n"+words))
			}
			s := startGuarded(t, site.String())
			for _, protocol := range bedProtocols {
				for _, framing := range []string{"length", "chunked"} {
					res, got, err := s.do("GET", "/"+protocol+"/bytes/200000?framing="+framing, nil, nil)
					if err == nil {
						t.Errorf("%s, %s: %d with %d bytes, complete", protocol, framing, res.StatusCode, len(got))
					}
					if len(got) >= 200_000 {
						t.Errorf("%s, %s: %d bytes", protocol, framing, len(got))
					}
				}
			}
			b.assertNoDirectTo(p)
		})
	}
}

// TestRequestBodyTooLarge lets request_body's limit end an upload under way.
func TestRequestBodyTooLarge(t *testing.T) {
	for _, protocol := range bedProtocols {
		t.Run(protocol, func(t *testing.T) {
			b := newBed(t)
			s := startGuarded(t, "request_body {\nmax_size 100KB\n}\n"+b.site("http", protocol, "", "lb_retries 2"))
			for _, body := range []io.Reader{bytes.NewReader(make([]byte, 100_500)), struct{ io.Reader }{testbed.PageReader(100_500)}} {
				// The connection is closed behind the answer, and a client that still sends may not get to read it.
				res, _, err := s.do("POST", "/upload", body, nil)
				if err == nil && res.StatusCode != http.StatusRequestEntityTooLarge {
					t.Errorf("status %d", res.StatusCode)
				}
			}
			awaitTrue(t, "the access log", func() bool { return len(s.logged("handled request")) == 2 })
			for _, e := range s.logged("handled request") {
				if e["status"] != float64(http.StatusRequestEntityTooLarge) {
					t.Errorf("status %v", e["status"])
				}
			}
			if n := len(b.origin.Requests()); n > 2 {
				t.Errorf("the origin saw %d requests", n)
			}
			for _, e := range s.failures() {
				if e["code"] != "request_body_too_large" || e["status"] != float64(413) {
					t.Errorf("logged %v", e)
				}
			}
		})
	}
}

// TestClientLeavesUpload breaks an upload off in its middle.
func TestClientLeavesUpload(t *testing.T) {
	b := newBed(t)
	s := startGuarded(t, b.site("http", "h1", "", "fail_duration 1m\nlb_retries 2"))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\npart")
	awaitTrue(t, "the origin to get the head", func() bool { return len(b.origin.Requests()) == 1 })
	conn.Close()
	if e := s.awaitLogged("handled request"); e["status"] != float64(499) {
		t.Errorf("status %v", e["status"])
	}
	if failures := s.failures(); len(failures) != 0 {
		t.Errorf("warned of %v", failures)
	}
	assertNoStrikes(t, s)
}
