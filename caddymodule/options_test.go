package caddymodule

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/testbed"
)

// answer sends the request and returns what came of it: the status, or the code of the failure.
func answer(t *testing.T, tr *Transport, req *http.Request) (status int, code string) {
	t.Helper()
	res, err := tr.RoundTrip(req)
	if e, ok := errors.AsType[*Error](err); ok {
		return e.status(), e.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, ""
}

// TestTimeLimits checks over both protocols that each limit ends a request to an origin that does not answer.
func TestTimeLimits(t *testing.T) {
	const soon = caddy.Duration(50 * time.Millisecond)
	for _, protocol := range []string{"h1", "h2", "h2c"} {
		for name, limit := range map[string]func(*Transport){
			"response_header_timeout": func(tr *Transport) { tr.ResponseHeaderTimeout = soon },
			"read_timeout":            func(tr *Transport) { tr.ReadTimeout = soon },
		} {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				b := newBed(t)
				tr := b.transport("http", protocol)
				limit(tr)
				provision(t, tr)
				req := b.request(t, protocol, "/broken/hang")
				ctx, cancel := context.WithCancel(req.Context()) // a deadline would look like the limit
				defer cancel()
				defer time.AfterFunc(time.Minute, cancel).Stop()
				if status, code := answer(t, tr, req.WithContext(ctx)); status != 504 || code != "origin_timeout" {
					t.Errorf("%d %s", status, code)
				}
			})
		}
	}
}

// silent accepts connections and reads nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String() // the kernel accepts
}

// to makes the request one to addr.
func to(req *http.Request, addr string) *http.Request {
	host, port, _ := net.SplitHostPort(addr)
	return req.WithContext(context.WithValue(req.Context(), caddy.CtxKey("reverse_proxy.dial_info"),
		reverseproxy.DialInfo{Network: "tcp", Address: addr, Host: host, Port: port}))
}

func TestWriteTimeout(t *testing.T) {
	b := newBed(t)
	tr := b.transport("direct", "h1-cleartext")
	tr.WriteTimeout = caddy.Duration(50 * time.Millisecond)
	provision(t, tr)
	req := to(b.request(t, "h1-cleartext", "/upload"), silent(t))
	req.Method, req.Body, req.ContentLength = "POST", io.NopCloser(testbed.PageReader(64<<20)), 64<<20
	if status, code := answer(t, tr, req); status != 504 || code != "origin_timeout" {
		t.Errorf("%d %s", status, code)
	}
}

func TestTLSTimeout(t *testing.T) {
	b := newBed(t)
	tr := b.transport("http", "h2")
	tr.TLS.HandshakeTimeout = caddy.Duration(50 * time.Millisecond)
	provision(t, tr)
	if status, code := answer(t, tr, to(b.request(t, "h2", "/"), silent(t))); status != 504 || code != "origin_tls_timeout" {
		t.Errorf("%d %s", status, code)
	}
}

func TestMaxResponseHeader(t *testing.T) {
	for _, protocol := range []string{"h1", "h2"} {
		b := newBed(t)
		for size, want := range map[int64]int{0: 200, 16 << 10: 502} {
			tr := b.transport("http", protocol)
			tr.MaxResponseHeaderSize = size
			provision(t, tr)
			if status, code := answer(t, tr, b.request(t, protocol, "/huge-head?n=64KiB")); status != want {
				t.Errorf("%s: a head of 64 KiB with a limit of %d: %d %s", protocol, size, status, code)
			}
		}
	}
}

// unreadBody notes whether it is read.
type unreadBody struct {
	io.Reader
	read atomic.Bool
}

func (b *unreadBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.Reader.Read(p)
}

func (b *unreadBody) Close() error { return nil }

// TestExpectContinueTimeout checks over both protocols that a body waits for the origin's word, which does not come.
func TestExpectContinueTimeout(t *testing.T) {
	for _, protocol := range []string{"h1", "h2"} {
		b := newBed(t)
		tr := b.transport("http", protocol)
		tr.ExpectContinueTimeout = caddy.Duration(time.Hour)
		provision(t, tr)
		body := &unreadBody{Reader: strings.NewReader("data")}
		req := b.request(t, protocol, "/status/403") // answers without reading
		req.Method, req.Body, req.ContentLength = "POST", body, 4
		req.Header.Set("Expect", "100-continue")
		if status, code := answer(t, tr, req); status != 403 {
			t.Errorf("%s: %d %s", protocol, status, code)
		}
		if body.read.Load() {
			t.Errorf("%s: the body was read before the origin's word", protocol)
		}
	}
}

// largestWrite notes the size of a connection's largest write.
type largestWrite struct {
	net.Conn
	size *atomic.Int64
}

func (c largestWrite) Write(p []byte) (int, error) {
	c.size.Store(max(c.size.Load(), int64(len(p))))
	return c.Conn.Write(p)
}

// TestWriteBuffer sends a chunked body, which is read 32 KiB at a time: a chunk and its frame go out in one write where
// the buffer holds them.
func TestWriteBuffer(t *testing.T) {
	b := newBed(t)
	for size, whole := range map[int]bool{0: false, 64 << 10: true} {
		tr := b.transport("direct", "h1-cleartext")
		tr.WriteBufferSize = size
		provision(t, tr)
		var largest atomic.Int64
		dial := tr.dial
		tr.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return largestWrite{conn, &largest}, err
		}
		req := b.request(t, "h1-cleartext", "/upload")
		req.Method, req.Body, req.ContentLength = "POST", io.NopCloser(struct{ io.Reader }{testbed.PageReader(1 << 20)}), -1
		if status, code := answer(t, tr, req); status != 200 {
			t.Errorf("%d %s", status, code)
		}
		if got := largest.Load(); (got > 32<<10) != whole {
			t.Errorf("write_buffer_size %d: the largest write has %d bytes", size, got)
		}
	}
}

// TestTLSOptions checks what of the leg to the origin shows at the origin.
func TestTLSOptions(t *testing.T) {
	b := newBed(t)
	origin, err := testbed.NewOrigin(testbed.OriginConfig{
		Authority:    b.origin.Authority(),
		ConfigureTLS: func(_ string, cfg *tls.Config) { cfg.CurvePreferences = []tls.CurveID{tls.CurveP384} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { origin.Close() })
	for curve, want := range map[string]int{"secp384r1": 200, "secp256r1": 502} {
		tr := b.transport("http", "h2")
		tr.TLS.Curves = []string{curve}
		provision(t, tr)
		if status, code := answer(t, tr, to(b.request(t, "h2", "/headers"), origin.TLS)); status != want {
			t.Errorf("curve %s: %d %s", curve, status, code)
		}
	}

	tr := b.transport("http", "h2")
	tr.TLS.Renegotiation = "freely"
	tr.TLS.ExceptPorts = []string{port(t, origin.Plain)}
	provision(t, tr)
	if got := tr.origin.config.Renegotiation; got != tls.RenegotiateFreelyAsClient {
		t.Errorf("renegotiation %v", got)
	}
	if status, code := answer(t, tr, to(b.request(t, "h2", "/headers"), origin.Plain)); status != 200 {
		t.Errorf("a port without TLS: %d %s", status, code)
	}
}

// TestSocketOptions checks that what is configured reaches the dialer of this host's own connections.
func TestSocketOptions(t *testing.T) {
	b := newBed(t)
	tr := b.transport("direct", "h1-cleartext")
	tr.DialTimeout = caddy.Duration(7 * time.Second)
	tr.FallbackDelay = -1
	tr.LocalAddress = "127.0.0.1"
	tr.KeepAlive = &reverseproxy.KeepAlive{ProbeInterval: caddy.Duration(9 * time.Second)}
	d, err := tr.provisionSockets()
	if err != nil {
		t.Fatal(err)
	}
	if d.Timeout != 7*time.Second || d.FallbackDelay != -1 || d.LocalAddr.String() != "127.0.0.1:0" ||
		!d.KeepAliveConfig.Enable || d.KeepAliveConfig.Interval != 9*time.Second {
		t.Errorf("%+v", d)
	}
	tr.KeepAlive.ProbeInterval = -1
	if d, err = tr.provisionSockets(); err != nil || d.KeepAliveConfig.Enable || d.KeepAlive >= 0 {
		t.Errorf("probes are on: %+v, %v", d, err)
	}
}

// TestPoolOptions checks that what is configured reaches the pool.
func TestPoolOptions(t *testing.T) {
	off := false
	tr := &Transport{
		MaxConnsPerHost: 1,
		MaxIdentities:   2,
		ReplayBytes:     3,
		KeepAlive: &reverseproxy.KeepAlive{
			Enabled: &off, MaxIdleConns: 4, MaxIdleConnsPerHost: 5, IdleConnTimeout: caddy.Duration(6 * time.Second),
		},
	}
	want := pool.Options{
		MaxConnsPerHost: 1, MaxIdentities: 2, ReplayBytes: 3,
		DisableKeepAlives: true, MaxIdle: 4, MaxIdlePerHost: 5, IdleTimeout: 6 * time.Second,
	}
	if got := tr.poolOptions(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
