package h1c

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stalled is a body whose Read blocks until Close, which it lets happen meanwhile.
type stalled struct {
	first  io.Reader
	closed chan struct{}
	once   sync.Once
}

func newStalled(first string) *stalled {
	return &stalled{first: strings.NewReader(first), closed: make(chan struct{})}
}

func (s *stalled) Read(p []byte) (int, error) {
	if n, _ := s.first.Read(p); n > 0 {
		return n, nil
	}
	<-s.closed
	return 0, errors.New("closed")
}

func (s *stalled) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// An answer is seen while the body of its request blocks, and then the connection is not used again.
func TestEarlyAnswer(t *testing.T) {
	for name, reply := range map[string]string{
		"with_body": "Content-Length: 3\r\n\r\nbig",
		"without":   "Content-Length: 0\r\n\r\n",
		"closing":   "Connection: close\r\n\r\nbig",
	} {
		t.Run(name, func(t *testing.T) {
			eachInTime(t, func(t *testing.T, e engine) {
				c := e.pipe(t, nil, func(p *peer) {
					p.request()
					io.ReadFull(p.br, make([]byte, len("5\r\nbegin\r\n")))
					p.send("HTTP/1.1 413 Content Too Large\r\n" + reply)
					if strings.Contains(reply, "close") {
						return
					}
					if n, _ := io.Copy(io.Discard, p.br); n != 0 {
						t.Errorf("%d bytes came after the answer", n)
					}
				})
				body := newStalled("begin")
				req := post(t, nil, -1)
				req.Body = body
				res := do(t, c, req)
				if text(t, res); res.StatusCode != 413 {
					t.Error(res.Status)
				}
				sleep(time.Second)
				if c.Err() == nil || c.InFlight() != 0 {
					t.Errorf("%v, %d in flight", c.Err(), c.InFlight())
				}
				if !e.isOwn() {
					body.Close() // nobody else does before Read returns
				}
				<-body.closed
			})
		})
	}
}

// Where the upload ends soon after the response, its connection stays.
func TestUploadOutlastsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := own.pipe(t, nil, func(p *peer) {
			req := p.request()
			p.send("HTTP/1.1 200 OK", "Content-Length: 2", "", "ok")
			io.Copy(io.Discard, req.Body)
			p.request()
			p.send("HTTP/1.1 200 OK", "Content-Length: 0", "", "")
		})
		free := make(chan struct{}, 8)
		c.Notify(func() { free <- struct{}{} })
		r, w := io.Pipe()
		res := do(t, c, post(t, r, -1))
		text(t, res)
		if c.Err() != nil || c.InFlight() != 1 || c.Reserve() {
			t.Error("the slot is free while the upload goes on")
		}
		sleep(uploadGrace / 2)
		w.Close()
		<-free
		text(t, do(t, c, get(t, "/")))
	})
}

// Cancelling a request does not wait for its body.
func TestCancelledWhileBodyBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := own.pipe(t, nil, func(p *peer) { io.Copy(io.Discard, p.br) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body := newStalled("begin")
		req := post(t, nil, 100).WithContext(ctx)
		req.Body = body
		reserve(t, c)
		start := time.Now()
		_, err := c.RoundTrip(req)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		<-body.closed
	})
}

// A body whose Close waits for its Read does not hold up RoundTrip.
func TestBodyThatLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := own.pipe(t, nil, func(p *peer) { io.Copy(io.Discard, p.br) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		release := make(chan struct{})
		body := &locking{inside: make(chan struct{}, 1), release: release}
		req := post(t, nil, 100).WithContext(ctx)
		req.Body = body
		reserve(t, c)
		if _, err := c.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(release)
	})
}

type locking struct {
	inside  chan struct{}
	release chan struct{}
}

func (l *locking) Read([]byte) (int, error) {
	l.inside <- struct{}{}
	<-l.release
	<-l.inside
	return 0, io.EOF
}

func (l *locking) Close() error {
	l.inside <- struct{}{}
	<-l.inside
	return nil
}

func TestBodiesThatFail(t *testing.T) {
	broken := errors.New("client went away")
	fails := func() io.Reader {
		return io.MultiReader(strings.NewReader("some"), readFunc(func([]byte) (int, error) { return 0, broken }))
	}
	for name, test := range map[string]struct {
		body   func() io.Reader
		length int64
		want   string
	}{
		"error":         {fails, 100, broken.Error()},
		"error_chunked": {fails, -1, broken.Error()},
		"shorter":       {func() io.Reader { return plain{strings.NewReader("some")} }, 100, ""},
		"longer":        {func() io.Reader { return plain{strings.NewReader("some more")} }, 4, ""},
		"shorter_known": {func() io.Reader { return bytes.NewReader(make([]byte, 60<<10)) }, 100 << 10, ""},
		"longer_known":  {func() io.Reader { return bytes.NewReader(make([]byte, 60<<10)) }, 50 << 10, ""},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e engine) {
				c := e.over(t, nil, func(p *peer) {
					b, _ := io.ReadAll(p.br)
					if test.length < 0 && bytes.HasSuffix(b, []byte("0\r\n\r\n")) {
						t.Errorf("a body that failed looks whole: %q", b)
					}
				})
				reserve(t, c)
				_, err := c.RoundTrip(post(t, test.body(), test.length))
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v", err)
				}
				check(t, err, false, true)
			})
		})
	}
}

// A large body in memory goes with its head, and does not keep an early answer from being seen.
func TestLargeBodyInMemory(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) {
			b, err := io.ReadAll(p.request().Body)
			if err != nil || len(b) != 1<<20 || bytes.Count(b, []byte("x")) != len(b) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			p.send("HTTP/1.1 200 OK", "Content-Length: 0", "", "")
			p.request()
			p.send("HTTP/1.1 413 Content Too Large", "Content-Length: 0", "", "")
			p.br.Discard(1 << 20) // not all of it fits in between
		})
		for _, want := range []int{200, 413} {
			req := post(t, bytes.NewReader(bytes.Repeat([]byte("x"), 1<<20)), 1<<20)
			if want == 413 {
				req = post(t, bytes.NewReader(make([]byte, 64<<20)), 64<<20)
			}
			res := do(t, c, req)
			if text(t, res); res.StatusCode != want {
				t.Error(res.Status)
			}
		}
	})
}

// An interim response that its caller does not want ends the request.
func TestInterimRefused(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.answering(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		refused := errors.New("no hints")
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if code != 103 || h.Get("Link") != "</a>" {
					t.Errorf("%d %v", code, h)
				}
				return refused
			},
		})
		reserve(t, c)
		if _, err := c.RoundTrip(get(t, "/").WithContext(ctx)); !errors.Is(err, refused) {
			t.Error(err)
		}
	})
}

// A peer that takes no more of a request and does not answer is not waited for without end.
func TestUnsentAndUnanswered(t *testing.T) {
	eachInTime(t, func(t *testing.T, e engine) {
		near, far := net.Pipe()
		c := e.between(t, nil, &broken{near, 100}, far, func(p *peer) { io.Copy(io.Discard, p.br) })
		reserve(t, c)
		start := time.Now()
		_, err := c.RoundTrip(post(t, plain{bytes.NewReader(make([]byte, 1<<20))}, 1<<20))
		if !errors.Is(err, net.ErrWriteToConnected) || time.Since(start) != answerGrace {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		check(t, err, false, true)
	})
}

func TestContextEndedBefore(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.scripted(t, nil, "-> rest")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		body := &noted{Reader: strings.NewReader("x")}
		req := get(t, "/").WithContext(ctx)
		req.Body = body
		reserve(t, c)
		if _, err := c.RoundTrip(req); !errors.Is(err, context.Canceled) || !body.closed {
			t.Errorf("%v, closed %v", err, body.closed)
		}
		if e.isOwn() && (c.Err() != nil || c.InFlight() != 0 || body.read) {
			t.Errorf("%v, %d in flight", c.Err(), c.InFlight())
		}
	})
}

func TestRoundTripWithoutSlot(t *testing.T) {
	c := own.scripted(t, nil, "-> rest")
	body := &noted{Reader: strings.NewReader("x")}
	req := get(t, "/")
	req.Body = body
	_, err := c.RoundTrip(req)
	if !errors.Is(err, errNoSlot) || !body.closed {
		t.Errorf("%v, closed %v", err, body.closed)
	}
	check(t, err, true, true)
	reserve(t, c)
	c.Close()
	_, err = c.RoundTrip(get(t, "/"))
	check(t, err, true, true)
}

// The deadline for the head does not stay for a body.
func TestHeadBeforeUploadEnds(t *testing.T) {
	eachInTime(t, func(t *testing.T, e engine) {
		c := e.pipe(t, &Config{ResponseHeaderTimeout: time.Second}, func(p *peer) {
			req := p.request()
			p.send("HTTP/1.1 200 OK", "Content-Length: 2", "", "o")
			io.Copy(io.Discard, req.Body)
			sleep(time.Minute)
			p.send("k")
		})
		r, w := io.Pipe()
		res := do(t, c, post(t, r, -1))
		w.Close()
		if got := text(t, res); got != "ok" {
			t.Errorf("%q", got)
		}
	})
}

// A peer can answer only once the body of a declared length was read to its end: whoever lent it may look at it then.
func TestEndIsReadBeforeTheLastByteIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended, answered bool
		c := own.pipe(t, nil, func(p *peer) {
			p.request()
			io.ReadFull(p.br, make([]byte, len("data")))
			answered = true
			p.send("HTTP/1.1 204 No Content\r\n\r\n")
			io.Copy(io.Discard, p.br)
		})
		body, w := io.Pipe()
		go func() {
			io.WriteString(w, "data")
			synctest.Wait()
			if answered {
				t.Error("the body was sent before its end was known")
			}
			ended = true
			w.Close()
		}()
		reserve(t, c)
		res, err := c.RoundTrip(post(t, body, int64(len("data"))))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if !ended {
			t.Error("answered before the body's end")
		}
	})
}
