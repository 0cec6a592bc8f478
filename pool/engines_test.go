package pool_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddytunnel/caddytunnel/h1c"
	"github.com/caddytunnel/caddytunnel/h2c"
	"github.com/caddytunnel/caddytunnel/pool"
)

// engine is one kind of Conn with a server for it.
type engine struct {
	name  string
	proto int
	make  func(ctx context.Context, conn net.Conn) (pool.Conn, error)
}

var engines = []engine{
	{"h1c", 1, func(_ context.Context, conn net.Conn) (pool.Conn, error) { return h1c.New(conn, nil) }},
	{"h2c", 2, func(ctx context.Context, conn net.Conn) (pool.Conn, error) { return h2c.New(ctx, conn, nil) }},
}

// site is a server and a pool of connections to it.
type site struct {
	*pool.Pool
	engine engine
	server *httptest.Server
	dials  atomic.Int32
	id     pool.Identity
}

// each runs f over both engines.
func each(t *testing.T, opt pool.Options, h http.Handler, f func(*testing.T, *site)) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			s := &site{Pool: pool.New(opt), engine: e, server: httptest.NewUnstartedServer(h)}
			s.server.Config.Protocols = new(http.Protocols)
			s.server.Config.Protocols.SetHTTP1(e.proto == 1)
			s.server.Config.Protocols.SetUnencryptedHTTP2(e.proto == 2)
			s.server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 5}
			s.server.Start()
			t.Cleanup(s.server.Close)
			t.Cleanup(s.Close)
			s.id.Addr = s.server.Listener.Addr().String()
			f(t, s)
		})
	}
}

func (s *site) dial(ctx context.Context, _ *pool.Memory) (pool.Conn, error) {
	s.dials.Add(1)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.id.Addr)
	if err != nil {
		return nil, err
	}
	return s.engine.make(ctx, conn)
}

func (s *site) do(t *testing.T, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, s.server.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return s.RoundTrip(req, s.id, s.dial, nil)
}

// text does a request to its end.
func (s *site) text(t *testing.T, method, path, body string) string {
	t.Helper()
	res, err := s.do(t, method, path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.ProtoMajor != s.engine.proto {
		t.Errorf("%s %v", res.Proto, err)
	}
	return string(got)
}

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	fmt.Fprintf(w, "%s %s ", r.Method, r.URL.Path)
	io.Copy(w, r.Body)
})

func TestEngineConcurrency(t *testing.T) {
	each(t, pool.Options{MaxConnsPerHost: 3}, echo, func(t *testing.T, s *site) {
		var wg sync.WaitGroup
		for worker := range 20 {
			wg.Go(func() {
				for n := range 20 {
					path, body := fmt.Sprintf("/%d/%d", worker, n), strings.Repeat("x", n*100)
					if got := s.text(t, "POST", path, body); got != "POST "+path+" "+body {
						t.Errorf("the answer to %s is %.40q", path, got)
					}
				}
			})
		}
		wg.Wait()
	})
}

// A peer with few streams, met by a burst, refuses what came too early; nothing of that is seen.
func TestEngineBurst(t *testing.T) {
	each(t, pool.Options{}, echo, func(t *testing.T, s *site) {
		s.text(t, "GET", "/", "")
		s.server.CloseClientConnections()
		var wg sync.WaitGroup
		for n := range 40 {
			wg.Go(func() {
				path := fmt.Sprint("/", n)
				if got := s.text(t, "GET", path, ""); got != "GET "+path+" " {
					t.Errorf("the answer to %s is %.40q", path, got)
				}
			})
		}
		wg.Wait()
	})
}

func TestP06EngineDeadIdleConnection(t *testing.T) {
	each(t, pool.Options{}, echo, func(t *testing.T, s *site) {
		for range 10 {
			s.text(t, "GET", "/", "")
			s.server.CloseClientConnections() // seen by the connection before, during or after the next request
			if s.engine.proto == 1 {          // before it: what is not safe to repeat is not lost either
				s.text(t, "POST", "/", "data")
				s.server.CloseClientConnections()
			}
		}
	})
}

func TestEngineLargeEcho(t *testing.T) {
	each(t, pool.Options{}, echo, func(t *testing.T, s *site) {
		sent := make([]byte, 4<<20)
		rand.Read(sent)
		res, err := s.do(t, "POST", "/", bytes.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if got = bytes.TrimPrefix(got, []byte("POST / ")); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
	})
}

func TestEngineCancel(t *testing.T) {
	started := make(chan struct{}, 1)
	each(t, pool.Options{MaxConnsPerHost: 1}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			started <- struct{}{}
			<-r.Context().Done()
		}
	}), func(t *testing.T, s *site) {
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			req, _ := http.NewRequestWithContext(ctx, "GET", s.server.URL+"/hang", nil)
			_, err := s.RoundTrip(req, s.id, s.dial, nil)
			var e *pool.Error
			if !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Stage != pool.StageRoundTrip {
				t.Errorf("%T %v", err, err)
			}
			s.text(t, "GET", "/", "") // the place is free
		}
	})
}

func TestEngineUnreadBody(t *testing.T) {
	each(t, pool.Options{MaxConnsPerHost: 1}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 1<<20))
	}), func(t *testing.T, s *site) {
		for range 10 {
			res, err := s.do(t, "GET", "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
	})
}

func TestEngineTrailers(t *testing.T) {
	each(t, pool.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Down")
		w.Write(body)
		w.Header().Set("X-Down", r.Trailer.Get("X-Up"))
	}), func(t *testing.T, s *site) {
		trailer := http.Header{"X-Up": nil}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", s.server.URL, &eofFunc{strings.NewReader("body"), func() {
			trailer["X-Up"] = []string{"sum"}
		}})
		req.Trailer, req.ContentLength = trailer, -1
		res, err := s.RoundTrip(req, s.id, s.dial, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" || res.Trailer.Get("X-Down") != "sum" {
			t.Errorf("%q %v %v", body, err, res.Trailer)
		}
	})
}

// eofFunc calls f in the Read that returns EOF.
type eofFunc struct {
	io.Reader
	f func()
}

func (e *eofFunc) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.f()
	}
	return n, err
}

func TestEngineClose(t *testing.T) {
	release := make(chan struct{})
	each(t, pool.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-release
		io.WriteString(w, "late")
	}), func(t *testing.T, s *site) {
		res, err := s.do(t, "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		go func() { release <- struct{}{} }()
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != "late" {
			t.Errorf("%q %v", got, err)
		}
		res.Body.Close()
		late, err := s.do(t, "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { release <- struct{}{} }()
		if got, err := io.ReadAll(late.Body); err != nil || string(got) != "late" {
			t.Errorf("after Close: %q %v", got, err)
		}
		late.Body.Close()
	})
}

func TestEngineInvalidRequest(t *testing.T) {
	each(t, pool.Options{}, echo, func(t *testing.T, s *site) {
		for range 3 {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", s.server.URL, strings.NewReader("data"))
			req.Header["X"] = []string{"a\nb"}
			var got pool.Got
			_, err := s.RoundTrip(req, s.id, s.dial, &got)
			var e *pool.Error
			if !errors.As(err, &e) || e.BodyRead || got.Retried {
				t.Errorf("%v %+v", err, got)
			}
		}
		s.text(t, "GET", "/", "")
		if s.dials.Load() != 1 {
			t.Errorf("%d connections", s.dials.Load())
		}
	})
}

func TestEngineUpgrade(t *testing.T) {
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ")
		got, _ := io.ReadAll(rw)
		conn.Write(got)
	})
	each(t, pool.Options{MaxConnsPerHost: 1}, server, func(t *testing.T, s *site) {
		if s.engine.proto == 2 {
			t.Skip("HTTP/2 has no upgrade")
		}
		for range 3 {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", s.server.URL, nil)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			res, err := s.RoundTrip(req, s.id, s.dial, nil)
			if err != nil {
				t.Fatal(err)
			}
			rw := res.Body.(interface {
				io.ReadWriteCloser
				CloseWrite() error
			})
			io.WriteString(rw, "there")
			rw.CloseWrite()
			if got, err := io.ReadAll(rw); err != nil || string(got) != "hello there" {
				t.Errorf("%q %v", got, err)
			}
			rw.Close()
		}
		if s.dials.Load() != 3 {
			t.Errorf("%d connections", s.dials.Load())
		}
	})
}
