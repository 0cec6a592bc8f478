package caddymodule

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// closeAnswers are responses whose end is the connection's. "eof" ends one direction only: the client has to close the other.
var closeAnswers = []scripted{
	{"close", answering(`<- "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello" ` + "\n<- \" world\"\nclose"), false},
	{"keep-alive", answering(`<- "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nhello world"`), false},
	{"1.0", answering(`<- "HTTP/1.0 200 OK\r\n\r\nhello world"`), false},
	{"none", answering(`<- "HTTP/1.1 200 OK\r\n\r\nhello world"`), false},
	{"half", answering(`<- "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world"` + "\neof\n-> eof"), false},
	{"tls_close", answeringTLS(`<- "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world"` + "\nclose"), true},
	{"tls_half", answeringTLS(`<- "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world"` + "\neof\n-> eof"), true},
	{"empty", answering(`<- "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"`), false},
}

// TestUntilClose checks that the end of such a body ends the response, over every way, and that nothing is held open for it.
func TestUntilClose(t *testing.T) {
	b := newBed(t)
	site, _ := b.answerSites(closeAnswers, bedWays, "")
	s := startCaddy(t, site)
	for i, a := range closeAnswers {
		for j, way := range bedWays {
			t.Run("B29_"+a.name+"_"+way, func(t *testing.T) {
				for _, client := range someOf(downloaders(), i+j) {
					d := s.download(t, client, "/"+a.name+"_"+way+"/")
					if want := map[bool]string{false: "hello world", true: ""}[a.name == "empty"]; d.status != 200 || d.err != nil || string(d.body) != want {
						t.Errorf("%s: %v: %q", client, d, d.body)
					}
				}
			})
		}
	}
	if e := s.logged("response body failed"); len(e) > 0 {
		t.Errorf("logged %v", e)
	}
}

// shortWrites is a handler whose writes take a part of what is written behind the first 20 KiB, and say so in the count alone.
type shortWrites struct{}

func init() {
	caddy.RegisterModule(shortWrites{})
	httpcaddyfile.RegisterHandlerDirective("short_writes", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return shortWrites{}, nil
	})
}

func (shortWrites) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.short_writes", New: func() caddy.Module { return new(shortWrites) }}
}

func (shortWrites) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(&shortWriter{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, left: 20 << 10}, r)
}

type shortWriter struct {
	*caddyhttp.ResponseWriterWrapper
	left int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriterWrapper.Write(p[:min(len(p), w.left)])
	w.left -= n
	return n, err
}

// ReadFrom is not the wrapper's, which would pass Write by.
func (w *shortWriter) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{w}, r) }

// TestBufferEdges has bodies a little longer than the buffers they go through: all of them arrives, also at a client that takes little at
// a time, or the client sees that it did not.
func TestBufferEdges(t *testing.T) {
	const size = 38 << 10
	var page bytes.Buffer
	if err := testbed.Page(size, &page); err != nil {
		t.Fatal(err)
	}
	b := newBed(t)
	s := startCaddy(t, b.legSites("", "", "")+b.legSites("buffered-", "", "response_buffers 32KiB\nrequest_buffers 32KiB")+
		b.legSites("decoding-", "decode", "")+"route /short/* {\nuri strip_prefix /short\nshort_writes\n"+b.legSites("", "", "")+"\n}")
	for _, l := range bodyLegs {
		t.Run("B25_"+l.name(), func(t *testing.T) {
			for _, prefix := range []string{"/", "/buffered-", "/decoding-"} {
				for _, query := range []string{"?framing=length", "?framing=chunked", "?coding=gzip&framing=length"} {
					if prefix != "/decoding-" && len(query) > 20 {
						continue
					}
					for _, client := range downloaders() {
						d := s.download(t, client, fmt.Sprintf("%s%s/bytes/%d%s", prefix, l.name(), size, query))
						if d.status != 200 || d.err != nil || !bytes.Equal(d.body, page.Bytes()) {
							t.Errorf("%s, %s, %s: %v", prefix, query, client, d)
						}
					}
				}
				for name, client := range s.uploaders(t) {
					status, body, err := s.upload(t, client, prefix+l.name()+"/echo", size, true)
					if err != nil || status != 200 || !bytes.Equal(body, page.Bytes()) {
						t.Errorf("%s up and down, %s: %d, %d bytes, %v", prefix, name, status, len(body), err)
					}
				}
			}
			narrow := h2cClient()
			narrow.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}
			defer narrow.CloseIdleConnections()
			res, err := narrow.Get(fmt.Sprintf("%s/%s/bytes/%d", s.url, l.name(), size))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, page.Bytes()) {
				t.Errorf("in a window of 1000 bytes: %d bytes, %v", len(got), err)
			}
		})
		t.Run("B25_short_write_"+l.name(), func(t *testing.T) {
			for _, client := range downloaders() {
				for _, framing := range []string{"length", "chunked"} {
					d := s.download(t, client, fmt.Sprintf("/short/%s/bytes/%d?framing=%s", l.name(), size, framing))
					if !d.broken(20<<10) || !bytes.HasPrefix(page.Bytes(), d.body) {
						t.Errorf("%s, %s: %v", client, framing, d)
					}
				}
			}
		})
	}
}
