package caddymodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// target is the origin's address that a leg of this protocol leads to.
func (b *bed) target(protocol string) string {
	upstream, _ := b.upstream(protocol)
	_, addr, _ := strings.Cut(upstream, "://")
	return addr
}

// TestCapDeclared checks that a declared length over the cap is a clean 502 that is not tried again, and that exactly
// the cap passes.
func TestCapDeclared(t *testing.T) {
	b := newBed(t)
	s := startCaddy(t, b.legSites("", "max_body_bytes 64KiB", "lb_retries 3\nfail_duration 1m")+
		b.legSites("si-", "max_body_bytes 64KB", ""))
	for _, l := range bodyLegs {
		for _, client := range downloaders() {
			t.Run("B18_"+l.name()+"_"+client, func(t *testing.T) {
				for path, n := range map[string]int{"/" + l.name(): 64 << 10, "/si-" + l.name(): 64_000} {
					if d := s.download(t, client, fmt.Sprintf("%s/bytes/%d", path, n)); d.status != 200 || len(d.body) != n || d.err != nil {
						t.Errorf("exactly the cap of %d: %v", n, d)
					}
					logged := len(s.logged("response body failed"))
					if d := s.download(t, client, fmt.Sprintf("%s/bytes/%d", path, n+1)); d.status != 502 || len(d.body) != 0 || d.err != nil {
						t.Errorf("a byte more than %d: %v", n, d)
					}
					if e := s.bodyFailed(t, logged, "body_too_large", b.target(l.protocol)); e["limit"] != float64(n) || e["declared"] != float64(n+1) {
						t.Errorf("logged %v", e)
					}
				}
			})
			t.Run("B17_"+l.name()+"_"+client, func(t *testing.T) {
				logged, asked := len(s.logged("response body failed")), len(b.origin.Requests())
				d := s.download(t, client, "/"+l.name()+"/bytes/65537")
				if d.status != 502 || len(d.body) != 0 || d.err != nil || !strings.Contains(d.header.Get("Proxy-Status"), "http_response_body_size") {
					t.Errorf("%v", d)
				}
				if d.header.Get("Etag") != "" || d.header.Get("X-Sha256") != "" {
					t.Errorf("the origin's fields came with it: %v", d)
				}
				if n := len(b.origin.Requests()) - asked; n != 1 {
					t.Errorf("the origin was asked %d times", n)
				}
				s.bodyFailed(t, logged, "body_too_large", b.target(l.protocol))
				if res, _, err := s.do("HEAD", "/"+l.name()+"/bytes/65537", nil, nil); err != nil || res.StatusCode != 200 || res.ContentLength != 65537 {
					t.Errorf("HEAD: %v %v", res, err)
				}
			})
		}
	}
	t.Run("B17_not_blamed", func(t *testing.T) {
		s.download(t, "h1", "/"+bodyLegs[0].name()+"/bytes/65537")
		assertNoStrikes(t, s)
	})
}

// TestCapWithoutBody has responses that say a length over the cap and have no body. What is refused for its length must not
// leave its connection in a state that the next request stumbles over.
func TestCapWithoutBody(t *testing.T) {
	const next = `
		-> head "GET /next HTTP/1.1\r\n"
		<- "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		-> rest`
	const nextH2 = `
		-> HEADERS 3 :path=/next END_STREAM
		<- HEADERS 3 :status=200 content-length=2
		<- DATA 3 "ok" END_STREAM
		-> rest`
	h1 := func(answer string) []string { return []string{"-> head\n<- " + answer + next} }
	h2 := func(answer string) []string { return []string{"h2\n-> HEADERS 1 END_STREAM\n" + answer + nextH2} }
	tests := map[string]struct {
		scheme  string
		scripts []string
		status  int
		conns   int
	}{
		"B17_304_h1":     {"http", h1(`"HTTP/1.1 304 Not Modified\r\nContent-Length: 5000\r\n\r\n"`), 304, 1},
		"B17_204_h1":     {"http", h1(`"HTTP/1.1 204 No Content\r\nContent-Length: 5000\r\n\r\n"`), 204, 1},
		"B17_interim_h1": {"http", h1(`"HTTP/1.1 103 Early Hints\r\nContent-Length: 5000\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"`), 200, 1},
		"B17_over_h1": {"http", []string{"-> head\n<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 5000\\r\\n\\r\\n\" 5000*\"x\"\n-> rest",
			next}, 502, 2},
		"B17_over_silent_h1": {"http", []string{"-> head\n<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 5000\\r\\n\\r\\n\"\n-> rest", next}, 502, 2},
		"B17_304_h2c":        {"h2c", h2("<- HEADERS 1 :status=304 content-length=5000 END_STREAM"), 304, 1},
		"B17_204_h2c":        {"h2c", h2("<- HEADERS 1 :status=204 END_STREAM"), 204, 1},
		"B17_interim_h2c": {"h2c", h2("<- HEADERS 1 :status=103 content-length=5000\n<- HEADERS 1 :status=200 content-length=1\n" +
			`<- DATA 1 "x" END_STREAM`), 200, 1},
		"B17_over_h2c": {"h2c", h2("<- HEADERS 1 :status=200 content-length=5000\n-> RST_STREAM 1 CANCEL"), 502, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			origin := script.Listen(t, test.scripts...)
			s := startCaddy(t, fmt.Sprintf("reverse_proxy %s://%s {\ntransport tunnel {\n%s\nmax_body_bytes 1000\n}\n}", test.scheme, origin.Addr, b.via("http")))
			if d := s.download(t, "h1", "/first"); d.status != test.status || d.err != nil {
				t.Errorf("%v", d)
			}
			if d := s.download(t, "h1", "/next"); d.status != 200 || string(d.body) != "ok" || d.err != nil {
				t.Errorf("the next one: %v", d)
			}
			if n := origin.Accepted(); n != test.conns {
				t.Errorf("%d connections to the origin, want %d", n, test.conns)
			}
			if want := test.conns - 1; want > 0 {
				awaitTrue(t, "the connection to be closed", func() bool { return origin.Open() == 1 })
			}
		})
	}
}

// TestCapMidStream checks that a body that turns out to be over the cap never looks complete, however it is framed.
func TestCapMidStream(t *testing.T) {
	const limit = 256 << 10
	b := newBed(t)
	s := startCaddy(t, b.legSites("", "max_body_bytes 256KiB", "lb_retries 3\nfail_duration 1m")+b.legSites("decoding-", "max_body_bytes 256KiB\ndecode", ""))
	paths := map[string]string{
		"chunked":         "/bytes/4MiB?framing=chunked",
		"one_more":        "/bytes/262145?framing=chunked",
		"until_close":     "/until-close?n=1MiB",
		"decoded_length":  "/bytes/300KB?coding=gzip&framing=length",
		"decoded_chunked": "/bytes/300KB?coding=br,gzip&framing=chunked",
	}
	for _, l := range bodyLegs {
		for _, client := range downloaders() {
			t.Run("B16_"+l.name()+"_"+client, func(t *testing.T) {
				for what, path := range paths {
					prefix := "/"
					if strings.HasPrefix(what, "decoded") {
						prefix = "/decoding-"
					}
					if what == "until_close" && wireProto(l.protocol) != "HTTP/1.1" {
						continue // it has a length there
					}
					logged, asked := len(s.logged("response body failed")), len(b.origin.Requests())
					d := s.download(t, client, prefix+l.name()+path)
					if d.status != 200 || d.err == nil || len(d.body) > limit {
						t.Errorf("%s: %v", what, d)
					}
					e := s.bodyFailed(t, logged, "body_too_large", b.target(l.protocol))
					if e["limit"] != float64(limit) || e["declared"] != 0.0 {
						t.Errorf("%s: logged %v", what, e)
					}
					if n := len(b.origin.Requests()) - asked; n != 1 {
						t.Errorf("%s: the origin was asked %d times", what, n)
					}
				}
				for _, prefix := range []string{"/", "/decoding-"} {
					d := s.download(t, client, prefix+l.name()+"/bytes/262144?framing=chunked&coding=identity")
					if d.status != 200 || d.err != nil || len(d.body) != limit {
						t.Errorf("exactly the cap: %v", d)
					}
				}
			})
		}
	}
	t.Run("B16_not_blamed", func(t *testing.T) {
		s.download(t, "h1", "/"+bodyLegs[0].name()+paths["chunked"])
		assertNoStrikes(t, s)
	})
}
