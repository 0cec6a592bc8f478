package pool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// testBody is a request's body that knows what was done with it.
type testBody struct {
	data   string
	read   int
	closed bool
}

func (b *testBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, errors.New("read after close")
	}
	n := copy(p, b.data[b.read:])
	b.read += n
	if b.read == len(b.data) {
		return n, io.EOF
	}
	return n, nil
}

func (b *testBody) Close() error { b.closed = true; return nil }

// failure is an error of a Conn.
type failure struct{ unprocessed, unanswered, invalid, refused, http11 bool }

func (failure) Error() string          { return "connection failed" }
func (f failure) Unprocessed() bool    { return f.unprocessed }
func (f failure) Unanswered() bool     { return f.unanswered }
func (f failure) Invalid() bool        { return f.invalid }
func (f failure) Refused() bool        { return f.refused }
func (f failure) HTTP11Required() bool { return f.http11 }

func TestSendAgain(t *testing.T) {
	unprocessed, unanswered := failure{unprocessed: true, unanswered: true}, failure{unanswered: true}
	for name, test := range map[string]struct {
		method string
		body   string
		reads  int // bytes the failing connection takes of the body
		err    error
		fresh  bool // the first connection is not a reused one
		again  bool
	}{
		"get_unprocessed":          {"GET", "", 0, unprocessed, true, true},
		"get_unprocessed_reused":   {"GET", "", 0, unprocessed, false, true},
		"get_unanswered_reused":    {"GET", "", 0, unanswered, false, true},
		"get_unanswered_fresh":     {"GET", "", 0, unanswered, true, false},
		"get_answered":             {"GET", "", 0, failure{}, false, false},
		"get_invalid":              {"GET", "", 0, failure{unprocessed: true, invalid: true}, false, false},
		"get_other_error":          {"GET", "", 0, errors.New("x"), false, false},
		"post_unanswered":          {"POST", "", 0, unanswered, false, false},
		"post_unprocessed_unread":  {"POST", "body", 0, unprocessed, true, true},
		"post_unprocessed_partly":  {"POST", "body", 2, unprocessed, true, true},
		"post_unprocessed_read":    {"POST", "body", 4, unprocessed, false, true},
		"post_at_the_limit":        {"POST", strings.Repeat("x", 1024), 1024, unprocessed, true, true},
		"post_over_the_limit":      {"POST", strings.Repeat("x", 1025), 1025, unprocessed, true, false},
		"post_over_unread":         {"POST", strings.Repeat("x", 9999), 0, unprocessed, true, true},
		"H01_post_over_all_read":   {"POST", strings.Repeat("x", 9999), 9999, unprocessed, true, false},
		"put_unanswered_with_body": {"PUT", "body", 4, unanswered, false, false},
		"options_unanswered":       {"OPTIONS", "body", 4, unanswered, false, true},
	} {
		for _, length := range []bool{true, false} {
			if !length && test.body == "" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				p, f := New(Options{ReplayBytes: 1024}), &farm{t: t}
				defer p.Close()
				id := ident(1, "a")
				if !test.fresh {
					fetch(t, p, f, id)
				}
				attempts := 0
				f.serve = func(c *fakeConn, req *http.Request) (*http.Response, error) {
					attempts++
					if req.GetBody != nil || length && req.ContentLength != int64(len(test.body)) || !length && req.ContentLength != -1 {
						t.Errorf("content length %d", req.ContentLength)
					}
					if attempts == 1 {
						if test.reads > 0 {
							io.ReadFull(req.Body, make([]byte, test.reads))
						}
						if req.Body != nil {
							req.Body.Close()
						}
						c.die()
						return nil, test.err
					}
					if c.rounds != 1 {
						t.Error("the second connection is an old one")
					}
					if req.Body != nil {
						got, err := io.ReadAll(iotest.OneByteReader(req.Body))
						if err != nil || string(got) != test.body {
							t.Errorf("H02 second body is %d bytes, %v", len(got), err)
						}
						req.Body.Close()
					}
					return answer("ok"), nil
				}
				body := &testBody{data: test.body}
				req := request(t.Context(), id, test.method, nil)
				if test.body != "" {
					req.Body, req.ContentLength = body, -1
					if length {
						req.ContentLength = int64(len(test.body))
					}
				}
				var got Got
				res, err := p.RoundTrip(req, id, f.dialFor(id), &got)
				if got.Retried != test.again || attempts > 2 {
					t.Errorf("%+v, %d attempts", got, attempts)
				}
				if test.again {
					if err != nil {
						t.Fatal(err)
					}
					if res.Request != req {
						t.Error("the response is of another request")
					}
					finish(t, res)
				} else {
					var e *Error
					if !errors.As(err, &e) || e.Stage != StageRoundTrip || !errors.Is(err, test.err) || e.BodyRead != (test.reads > 0) {
						t.Errorf("%+v", err)
					}
				}
				if test.body != "" && (!body.closed || req.Body != body) {
					t.Error("the body is not closed, or was replaced")
				}
				verify(t, p, true)
			})
		}
	}
}

func TestDialFailsAfterBodyWasRead(t *testing.T) {
	p, f := New(Options{}), &farm{t: t}
	defer p.Close()
	id := ident(1, "a")
	f.serve = func(c *fakeConn, req *http.Request) (*http.Response, error) {
		io.ReadAll(req.Body)
		c.die()
		return nil, failure{unprocessed: true}
	}
	refused := errors.New("refused")
	dials := 0
	_, err := p.RoundTrip(request(t.Context(), id, "POST", &testBody{data: "data"}), id, func(context.Context, *Memory) (Conn, error) {
		if dials++; dials > 1 {
			return nil, refused
		}
		return f.make(id), nil
	}, nil)
	var e *Error
	if !errors.As(err, &e) || e.Stage != StageDial || !e.BodyRead || !errors.Is(err, refused) {
		t.Errorf("%+v", err)
	}
	verify(t, p, true)
}

func TestBodyUnreadWhenDialFails(t *testing.T) {
	p := New(Options{})
	defer p.Close()
	id, body := ident(1, "a"), &testBody{data: "data"}
	_, err := p.RoundTrip(request(t.Context(), id, "POST", body), id, func(context.Context, *Memory) (Conn, error) {
		return nil, errors.New("refused")
	}, nil)
	var e *Error
	if !errors.As(err, &e) || e.Stage != StageDial || e.BodyRead || body.read != 0 {
		t.Errorf("%+v, %d bytes read", err, body.read)
	}
	verify(t, p, true)
}

func TestFailingBodyIsNotSentAgain(t *testing.T) {
	p, f := New(Options{}), &farm{t: t}
	defer p.Close()
	id, gone := ident(1, "a"), errors.New("client went away")
	attempts := 0
	f.serve = func(c *fakeConn, req *http.Request) (*http.Response, error) {
		attempts++
		_, err := io.ReadAll(req.Body)
		if !errors.Is(err, gone) {
			t.Error(err)
		}
		c.die()
		return nil, failure{unprocessed: true}
	}
	req := request(t.Context(), id, "POST", io.MultiReader(strings.NewReader("data"), iotest.ErrReader(gone)))
	if _, err := p.RoundTrip(req, id, f.dialFor(id), nil); err == nil || attempts != 1 {
		t.Errorf("%v, %d attempts", err, attempts)
	}
}

// The engine goes on with the body after the response's head, past what is remembered.
func TestBodyReadDuringResponse(t *testing.T) {
	for _, limit := range []int64{-1, 0, 10} {
		p, f := New(Options{ReplayBytes: limit}), &farm{t: t}
		id, sent := ident(1, "a"), bytes.Repeat([]byte("0123456789"), 10<<10)
		f.serve = func(_ *fakeConn, req *http.Request) (*http.Response, error) {
			io.ReadFull(req.Body, make([]byte, 5))
			res := answer("")
			res.Body = struct {
				io.Reader
				io.Closer
			}{req.Body, req.Body}
			return res, nil
		}
		req := request(t.Context(), id, "POST", bytes.NewReader(sent))
		res, err := p.RoundTrip(req, id, f.dialFor(id), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || !bytes.Equal(got, sent[5:]) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		res.Body.Close()
		p.Close()
	}
}

// A Read that the failed connection left behind may take bytes at any time: nothing is sent again.
func TestBodyReadInProgress(t *testing.T) {
	p, f := New(Options{}), &farm{t: t}
	defer p.Close()
	id := ident(1, "a")
	r, w := io.Pipe()
	reading, left := make(chan struct{}), make(chan error)
	f.serve = func(c *fakeConn, req *http.Request) (*http.Response, error) {
		go func() {
			close(reading)
			_, err := req.Body.Read(make([]byte, 10))
			left <- err
		}()
		<-reading
		for body := req.Body.(*attempt).r; ; {
			body.mu.Lock()
			started := body.reading
			body.mu.Unlock()
			if started {
				break
			}
		}
		c.die()
		return nil, failure{unprocessed: true}
	}
	_, err := p.RoundTrip(request(t.Context(), id, "POST", r), id, f.dialFor(id), nil)
	var e *Error
	if !errors.As(err, &e) || !e.BodyRead {
		t.Errorf("%+v", err)
	}
	if err := <-left; err == nil {
		t.Error("the body was not closed")
	}
	w.Close()
}
