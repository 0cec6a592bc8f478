package h1c

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// peer is the other end of a Conn, driven by a script.
type peer struct {
	t *testing.T
	net.Conn
	br *bufio.Reader
}

// script gives a Conn over TCP whose peer runs f; the peer's end is closed when f returns.
func script(t *testing.T, cfg *Config, f func(*peer)) *Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, cfg, conn, other, f)
}

// pipe is script over an in-memory conn, for tests of time.
func pipe(t *testing.T, cfg *Config, f func(*peer)) *Conn {
	t.Helper()
	conn, other := net.Pipe()
	return run(t, cfg, conn, other, f)
}

func run(t *testing.T, cfg *Config, conn, other net.Conn, f func(*peer)) *Conn {
	t.Helper()
	c, err := New(conn, cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer other.Close()
		f(&peer{t: t, Conn: other, br: bufio.NewReader(other)})
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
func get(t *testing.T, path string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://origin.test"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func reserve(t *testing.T, c *Conn) {
	t.Helper()
	if !c.Reserve() {
		t.Fatalf("no slot: %v", c.Err())
	}
}
