package h1c

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddytunnel/caddytunnel/testbed/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// client is what Conn and the oracle have in common.
type client interface {
	RoundTrip(*http.Request) (*http.Response, error)
	Reserve() bool
	Release()
	Shareable() bool
	InFlight() int
	Err() error
	Notify(func())
	Close() error
}

// stream is the body of a 101.
type stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// engine makes clients for one test, which runs once with each engine.
type engine struct {
	name string
	make func(net.Conn, *Config) (client, error)
}

// own is the engine of this package.
var own = engine{"h1c", func(conn net.Conn, cfg *Config) (client, error) { return New(conn, cfg) }}

var engines = []engine{
	own,
	{"net_http", func(conn net.Conn, cfg *Config) (client, error) { return newOracle(conn, cfg) }},
}

// each runs f with both engines. What f wants is what both do.
func each(t *testing.T, f func(*testing.T, engine)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) { f(t, e) })
	}
}

// eachInTime is each in a bubble of time of its own.
func eachInTime(t *testing.T, f func(*testing.T, engine)) {
	t.Helper()
	each(t, func(t *testing.T, e engine) {
		synctest.Test(t, func(t *testing.T) { f(t, e) })
	})
}

// isOwn tells the tests where the engines differ.
func (e engine) isOwn() bool { return e.name == own.name }

// peer is the other end of a client, driven by a script.
type peer struct {
	t *testing.T
	net.Conn
	br *bufio.Reader
}

// tcp gives both ends of a TCP connection.
func tcp(t testing.TB) (near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if near, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// over gives a client over TCP whose peer runs f; the peer's end is closed when f returns.
func (e engine) over(t *testing.T, cfg *Config, f func(*peer)) client {
	t.Helper()
	near, far := tcp(t)
	return e.between(t, cfg, near, far, f)
}

// pipe is over for an in-memory conn, for tests of time.
func (e engine) pipe(t *testing.T, cfg *Config, f func(*peer)) client {
	t.Helper()
	near, far := net.Pipe()
	return e.between(t, cfg, near, far, f)
}

func (e engine) between(t *testing.T, cfg *Config, near, far net.Conn, f func(*peer)) client {
	t.Helper()
	c, err := e.make(near, cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		f(&peer{t: t, Conn: far, br: bufio.NewReader(far)})
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// request reads the head of a request.
func (p *peer) request() *http.Request {
	req, err := http.ReadRequest(p.br)
	if err != nil {
		p.t.Errorf("peer reads a request: %v", err)
		return new(http.Request)
	}
	return req
}

func (p *peer) send(lines ...string) {
	if _, err := p.Write([]byte(strings.Join(lines, "\r\n"))); err != nil {
		p.t.Errorf("peer writes: %v", err)
	}
}

// get makes a request that names nothing but its path.
func get(t testing.TB, path string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://origin.test"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// post makes a request with a body of that length; negative: unknown.
func post(t testing.TB, body io.Reader, length int64) *http.Request {
	t.Helper()
	req := get(t, "/")
	req.Method, req.Body, req.ContentLength = http.MethodPost, io.NopCloser(body), length
	return req
}

func reserve(t testing.TB, c client) {
	t.Helper()
	if !c.Reserve() {
		t.Fatalf("no slot: %v", c.Err())
	}
}

// do is a round trip that has to succeed.
func do(t testing.TB, c client, req *http.Request) *http.Response {
	t.Helper()
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		t.Fatalf("%T: %v", err, err)
	}
	return res
}

// text reads a body that has to be whole, and closes it.
func text(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		t.Errorf("after %q: %v", b, err)
	}
	return string(b)
}
