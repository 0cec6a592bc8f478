package h1c

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func TestWhatIsProvable(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		post := func(t *testing.T) *http.Request { return post(t, strings.NewReader("data"), 4) }
		for name, test := range map[string]struct {
			peer                    func(*peer)
			request                 func(*testing.T) *http.Request
			unprocessed, unanswered bool
		}{
			"closed_before_reply":   {func(p *peer) { p.request() }, get0, false, true},
			"closed_in_status_line": {func(p *peer) { p.request(); p.send("HTTP/1.1 20") }, get0, false, false},
			"closed_in_head":        {func(p *peer) { p.request(); p.send("HTTP/1.1 200 OK", "X: ") }, get0, false, false},
			"closed_after_interim":  {func(p *peer) { p.request(); p.send("HTTP/1.1 103 Early Hints", "", "") }, get0, false, false},
			"not_http":              {func(p *peer) { p.request(); p.send("SSH-2.0-x", "", "") }, get0, false, false},
			"post_closed":           {func(p *peer) { io.Copy(io.Discard, p.request().Body) }, post, false, true},
			"bad_field": {func(p *peer) { p.br.ReadByte() }, func(t *testing.T) *http.Request {
				req := get(t, "/")
				req.Header["X"] = []string{"a\r\nb"}
				return req
			}, true, true},
			"body_fails": {func(p *peer) { io.Copy(io.Discard, p.br) }, func(t *testing.T) *http.Request {
				req := post(t)
				req.Body = io.NopCloser(iotest.ErrReader(errors.New("client went away")))
				return req
			}, false, true},
		} {
			t.Run(name, func(t *testing.T) {
				c := e.over(t, nil, test.peer)
				reserve(t, c)
				res, err := c.RoundTrip(test.request(t))
				if err == nil {
					t.Fatalf("answered %s", res.Status)
				}
				check(t, err, test.unprocessed, test.unanswered)
				c.Close()
				if c.Err() == nil || c.Reserve() || c.InFlight() != 0 {
					t.Errorf("a failed connection is usable")
				}
			})
		}
	})
}

func get0(t *testing.T) *http.Request { return get(t, "/") }

func check(t *testing.T, err error, unprocessed, unanswered bool) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T: %v", err, err)
	}
	if e.Unprocessed() != unprocessed || e.Unanswered() != unanswered {
		t.Errorf("unprocessed %v, unanswered %v, want %v, %v: %v", e.Unprocessed(), e.Unanswered(), unprocessed, unanswered, err)
	}
}

// stuck is a conn whose writes fail without a byte gone.
type stuck struct{ net.Conn }

func (stuck) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestNothingWritten(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		near, far := net.Pipe()
		c := e.between(t, nil, stuck{near}, far, func(p *peer) { io.Copy(io.Discard, p.br) })
		reserve(t, c)
		_, err := c.RoundTrip(get(t, "/"))
		check(t, err, true, true)
	})
}

func TestCancelled(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := e.over(t, nil, func(p *peer) {
			p.request()
			cancel(errors.New("a cause of the caller's own"))
			io.Copy(io.Discard, p.br)
		})
		reserve(t, c)
		_, err := c.RoundTrip(get(t, "/").WithContext(ctx))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%T: %v", err, err)
		}
		check(t, err, false, true)
		if c.Err() == nil {
			t.Error("the connection is usable")
		}
	})
}

func TestCancelledInBody(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) {
			p.request()
			p.send("HTTP/1.1 200 OK", "Content-Length: 10", "", "12345")
			io.Copy(io.Discard, p.br)
		})
		ctx, cancel := context.WithCancel(t.Context())
		reserve(t, c)
		res, err := c.RoundTrip(get(t, "/").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := res.Body.Read(make([]byte, 5)); !errors.Is(err, context.Canceled) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}

// TestErrorQuotesNothing has a peer that says again what it was told.
func TestErrorQuotesNothing(t *testing.T) {
	for name, test := range map[string]struct{ says, want string }{
		"C27_no_HTTP":            {"Basic:hunter2", "malformed HTTP response"},
		"C27_status":             {"HTTP/1.1 hunter2", "malformed HTTP status code"},
		"C27_version":            {"HTTP/hunter2 200", "malformed HTTP version"},
		"C27_field":              {"HTTP/1.1 200 OK\r\nhunter2", "malformed MIME header"},
		"C27_first_field":        {"HTTP/1.1 200 OK\r\n hunter2: x", "malformed MIME header"},
		"C27_lengths":            {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: hunter2", "Content-Length"},
		"C27_transfer_encodings": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: hunter2", "unsupported transfer encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			c := own.over(t, nil, func(p *peer) {
				p.request()
				p.send(test.says, "", "")
			})
			reserve(t, c)
			res, err := c.RoundTrip(get0(t))
			if err == nil {
				res.Body.Close()
				t.Fatal("a response")
			}
			if strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %q, want one with %q and without what the peer said", err, test.want)
			}
		})
	}
}
