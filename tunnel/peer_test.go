package tunnel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// startProxy starts a good proxy for the length of a test.
func startProxy(t *testing.T, config testbed.ProxyConfig) *testbed.Proxy {
	t.Helper()
	p, err := testbed.NewProxy(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// hopTo is the hop that a proxy of the testbed is.
func hopTo(p *testbed.Proxy) Hop {
	hop := Hop{Dialect: Dialect(p.Dialect), Network: p.Network, Addr: p.Addr}
	if hop.usesTLS() {
		hop.TLS = &tlsuser.Config{RootCAs: p.CA(), ServerName: "proxy.test"}
	}
	return hop
}

// proxied are the dialects with a proxy behind them.
var proxied = []Dialect{HTTP, HTTPS, H2, SOCKS5}

// ways runs f over a way of each dialect.
func ways(t *testing.T, dialects []Dialect, f func(t *testing.T, hops []Hop)) {
	for _, dialect := range dialects {
		t.Run(string(dialect), func(t *testing.T) {
			if dialect == Direct {
				f(t, []Hop{{Dialect: Direct}})
				return
			}
			f(t, []Hop{hopTo(startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect)}))})
		})
	}
}

// startEcho starts a target that sends back what it gets, and a half-close too. greeting is what it says first.
func startEcho(t *testing.T, greeting string) (addr string) {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		io.WriteString(conn, greeting)
		io.Copy(conn, conn)
		conn.(*net.TCPConn).CloseWrite()
	}).addr
}

// peer is a scripted server.
type peer struct {
	addr    string
	ln      net.Listener
	serving sync.WaitGroup // each connection until the client has closed it
}

// listen serves each connection by script, then reads it until the client closes it.
func listen(t *testing.T, script func(net.Conn)) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{addr: ln.Addr().String(), ln: ln}
	accepting := make(chan struct{})
	go p.accept(script, accepting)
	t.Cleanup(func() {
		ln.Close()
		<-accepting
		p.awaitClosed(t)
	})
	return p
}

func (p *peer) accept(script func(net.Conn), done chan<- struct{}) {
	defer close(done)
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() {
			defer conn.Close()
			script(conn)
			io.Copy(io.Discard, conn)
		})
	}
}

// awaitClosed waits until the client has closed every connection it made.
func (p *peer) awaitClosed(t *testing.T) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.serving.Wait()
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("the client left a socket open")
	}
}

// httpScript reads a request's head and answers it. Each piece of the answer is a write of its own.
func httpScript(answer ...string) func(net.Conn) {
	return func(conn net.Conn) {
		readHead(bufio.NewReader(conn))
		for _, piece := range answer {
			io.WriteString(conn, piece)
		}
	}
}

func readHead(r *bufio.Reader) (head string) {
	for {
		line, err := r.ReadString('\n')
		head += line
		if err != nil || line == "\r\n" {
			return head
		}
	}
}

// wantCode checks that err is an *Error of this code, which ends its text.
func wantCode(t *testing.T, err error, want Code) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v (%T), want an *Error with %s", err, err, want)
	}
	if e.Code != want {
		t.Fatalf("code = %s, want %s (%v)", e.Code, want, err)
	}
	if !strings.HasSuffix(err.Error(), " ["+string(want)+"]") {
		t.Errorf("%q does not end in its code", err)
	}
	return e
}

func dial(hops ...Hop) (net.Conn, error) {
	return (&Dialer{Hops: hops}).DialContext(context.Background(), "tcp", "origin.test:443")
}

// exchange sends text through a tunnel to an echo and compares what comes back, up to the end.
func wantEcho(t *testing.T, conn net.Conn, greeting, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := closeWrite(conn); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != greeting+text {
		t.Fatalf("read %d bytes, %v; want %q", len(got), err, greeting+text)
	}
}
