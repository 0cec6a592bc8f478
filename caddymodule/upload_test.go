package caddymodule

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// uploaders are clients by protocol, and the forms in which they send a body.
func (s *server) uploaders(t *testing.T) map[string]*http.Client {
	h2c := h2cClient()
	t.Cleanup(h2c.CloseIdleConnections)
	return map[string]*http.Client{"h1": s.client(), "h2c": h2c}
}

// upload posts n bytes of a page, with or without saying so first.
func (s *server) upload(t *testing.T, client *http.Client, path string, n int64, chunked bool) (status int, body []byte, err error) {
	t.Helper()
	page := testbed.PageReader(n)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, page)
	if err != nil {
		t.Fatal(err)
	}
	if req.ContentLength = n; chunked {
		req.ContentLength = -1
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// sink counts the bodies that looked whole.
func sink(whole *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		whole.Add(1)
	})
}

// TestUploadTriedElsewhere has a first upstream that refuses connections: the body, of which nothing was read, arrives whole at the
// second.
func TestUploadTriedElsewhere(t *testing.T) {
	b := newBed(t)
	var site strings.Builder
	sizes := []int64{1, 38 << 10, 150 << 10} // less and more than is remembered
	path := func(l leg, client string, n int64, chunked bool) string {
		return fmt.Sprintf("/%s_%s_%d_%v", l.name(), client, n, chunked)
	}
	for _, l := range bodyLegs {
		upstream, words := b.upstream(l.protocol)
		scheme, _, _ := strings.Cut(upstream, "://")
		for _, client := range []string{"h1", "h2c"} {
			for _, n := range sizes {
				for _, chunked := range []bool{false, true} {
					fmt.Fprintf(&site, "handle_path %s/* {\nreverse_proxy %s://%s %s {\nlb_policy first\nlb_retries 1\nfail_duration 1h\ntransport tunnel {\n%s\n%s\n}\n}\n}\n",
						path(l, client, n, chunked), scheme, closedAddr(t), upstream, b.via(l.way), words)
				}
			}
		}
	}
	s := startCaddy(t, site.String())
	for _, l := range bodyLegs {
		for name, client := range s.uploaders(t) {
			t.Run("B28_"+l.name()+"_"+name, func(t *testing.T) {
				for _, n := range sizes {
					for _, chunked := range []bool{false, true} {
						asked, refused := len(b.origin.Requests()), len(s.failures())
						status, body, err := s.upload(t, client, path(l, name, n, chunked)+"/upload", n, chunked)
						var up testbed.Uploaded
						if err != nil || status != 200 || json.Unmarshal(body, &up) != nil {
							t.Fatalf("%d bytes: %d %s %v", n, status, body, err)
						}
						if up.Bytes != n || up.SHA256 != testbed.PageSum(n) {
							t.Errorf("the origin got %d bytes of %d", up.Bytes, n)
						}
						if got := len(b.origin.Requests()) - asked; got != 1 {
							t.Errorf("the origin was asked %d times", got)
						}
						if got := len(s.failures()) - refused; got != 1 {
							t.Errorf("%d connections were refused, want 1", got)
						}
					}
				}
			})
		}
	}
}

// TestUploadOverLimit lets request_body's limit end an upload under way. That is not the limit of responses, nor the origin's
// fault, and it is not tried again.
func TestUploadOverLimit(t *testing.T) {
	var whole atomic.Int64
	b := newBed(t)
	b.extend(map[string]http.Handler{"/sink": sink(&whole)})
	var site strings.Builder
	for _, l := range bodyLegs {
		fmt.Fprintf(&site, "handle_path /%s/* {\nrequest_body {\nmax_size 100KB\n}\n%s\n}\n", l.name(), b.site(l.way, l.protocol, "max_body_bytes 100KB", "lb_retries 2\nfail_duration 1m"))
	}
	s := startCaddy(t, site.String())
	for _, l := range bodyLegs {
		for name, client := range s.uploaders(t) {
			t.Run("B19_"+l.name()+"_"+name, func(t *testing.T) {
				for _, n := range []int64{100_001, 1 << 20} {
					for _, chunked := range []bool{false, true} {
						failed := len(s.failures())
						status, _, err := s.upload(t, client, "/"+l.name()+"/sink", n, chunked)
						// Over HTTP/1.1 the connection is closed behind the answer, and a client that still sends may not get to read it.
						if err == nil && status != http.StatusRequestEntityTooLarge || err != nil && name == "h2c" {
							t.Errorf("%d bytes: %d %v", n, status, err)
						}
						for _, e := range s.failures()[failed:] {
							if e["code"] != "request_body_too_large" || e["status"] != 413.0 || e["hop"] != "" {
								t.Errorf("logged %v", e)
							}
						}
					}
				}
				if n := whole.Load(); n != 0 {
					t.Errorf("%d uploads looked whole to the origin", n)
				}
				if status, body, err := s.upload(t, client, "/"+l.name()+"/upload", 100_000, true); err != nil || status != 200 {
					t.Errorf("exactly the limit: %d %s %v", status, body, err)
				}
				logged := len(s.logged("response body failed"))
				if d := s.download(t, name, "/"+l.name()+"/bytes/100001"); d.status != 502 {
					t.Errorf("the limit of responses: %v", d)
				}
				s.bodyFailed(t, logged, "body_too_large", b.target(l.protocol))
			})
		}
	}
	t.Run("B19_not_blamed", func(t *testing.T) {
		if status, _, err := s.upload(t, h2cClient(), "/"+bodyLegs[0].name()+"/sink", 1<<20, true); status != 413 {
			t.Errorf("%d %v", status, err)
		}
		assertNoStrikes(t, s)
	})
}

// TestUploadMalformed sends bodies that break off or are not what HTTP allows. It is the client's doing: no origin is blamed, and none
// takes the part for the whole.
func TestUploadMalformed(t *testing.T) {
	var whole atomic.Int64
	b := newBed(t)
	b.extend(map[string]http.Handler{"/sink": sink(&whole)})
	s := startCaddy(t, b.legSites("", "", "lb_retries 2\nfail_duration 1m"))
	for _, l := range bodyLegs {
		t.Run("B19_malformed_"+l.name(), func(t *testing.T) {
			failed := len(s.failures())
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /%s/sink HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nno chunk\r\n", l.name())
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || res.StatusCode != http.StatusBadRequest {
				t.Errorf("%v %v", res, err)
			}
			entries := s.failures()[failed:]
			if len(entries) != 1 || entries[0]["code"] != "request_body_failed" || entries[0]["status"] != 400.0 {
				t.Errorf("logged %v", entries)
			}
			if n := whole.Load(); n != 0 {
				t.Errorf("%d uploads looked whole to the origin", n)
			}
			assertNoStrikes(t, s)
		})
	}
}

// TestUploadAnsweredEarly has origins that answer without reading an upload over the limit. The answer is given on, or it is a 413:
// never a 502, and never a part of one.
func TestUploadAnsweredEarly(t *testing.T) {
	for name, text := range map[string]string{
		"http": answering(`<- "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly"` + "\n-> rest"),
		"h2c":  "h2\n-> HEADERS 1\n<- HEADERS 1 :status=200 content-length=5\n<- DATA 1 \"early\" END_STREAM\n<- RST_STREAM 1 NO_ERROR\n-> rest",
	} {
		t.Run("B19_early_"+name, func(t *testing.T) {
			b := newBed(t)
			origin := script.Listen(t, text)
			s := startCaddy(t, fmt.Sprintf("request_body {\nmax_size 100KB\n}\nreverse_proxy %s://%s {\ntransport tunnel {\n%s\nkeepalive off\n}\n}", name, origin.Addr, b.via("socks5")))
			for protocol, client := range s.uploaders(t) {
				for range 5 {
					status, body, err := s.upload(t, client, "/", 1<<20, true)
					// Over HTTP/1.1 the connection is closed behind the answer, and a client that still sends may not get to read it.
					if err == nil && (status != 200 || string(body) != "early") && status != 413 || err != nil && protocol == "h2c" {
						t.Errorf("%s: %d %q %v", protocol, status, body, err)
					}
				}
			}
			awaitTrue(t, "the access log", func() bool { return len(s.logged("handled request")) == 10 })
			for _, e := range s.logged("handled request") {
				if e["status"] != 413.0 && (e["status"] != 200.0 || e["size"] != 5.0) {
					t.Errorf("status %v with %v bytes", e["status"], e["size"])
				}
			}
			for _, e := range append(s.failures(), s.logged("response body failed")...) {
				if e["code"] != "request_body_too_large" {
					t.Errorf("logged %v", e)
				}
			}
		})
	}
}
