package tunnel

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// scriptBegins is what a proxy's script begins with, up to the request for a tunnel to dest.
func scriptBegins(dialect Dialect, dest string) string {
	begin := map[Dialect]string{
		HTTP:  `-> head "CONNECT DEST HTTP/1.1\r\nHost: DEST\r\n"`,
		HTTPS: "tls http/1.1\n" + `-> head "CONNECT DEST HTTP/1.1\r\nHost: DEST\r\n"`,
		H2:    "tls h2\nh2\n-> HEADERS 1 :method=CONNECT :authority=DEST",
	}[dialect]
	return strings.ReplaceAll(begin, "DEST", dest) + "\n"
}

// scriptHop is a hop for a script. Whom TLS leads to is not looked at: the time of a bubble is before any certificate's.
func scriptHop(dialect Dialect) Hop {
	hop := Hop{Dialect: dialect, Addr: "proxy.test:1"}
	if hop.usesTLS() {
		hop.TLS = &tlsuser.Config{InsecureSkipVerify: true, Timeout: -1}
	}
	return hop
}

// scriptTLS is a server's side of TLS.
func scriptTLS(t *testing.T) *tls.Config {
	t.Helper()
	ca, err := testbed.NewAuthority("Test CA")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(testbed.CertRequest{Names: []string{"proxy.test"}})
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// listenScript starts a proxy that plays scripts, each behind what its dialect begins with, and returns the hop to it.
func listenScript(t *testing.T, dialect Dialect, scripts ...string) (Hop, *script.Peer) {
	t.Helper()
	for i := range scripts {
		scripts[i] = scriptBegins(dialect, "origin.test:443") + scripts[i]
	}
	hop := scriptHop(dialect)
	peer := script.Config{TLS: scriptTLS(t)}.Listen(t, scripts...)
	hop.Addr = peer.Addr
	return hop, peer
}

// sockets counts what is made of a dial function, and read.
type sockets struct {
	by func(context.Context, string, string) (net.Conn, error) // nil: a net.Dialer

	made, open, read atomic.Int64
}

func (s *sockets) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	by := s.by
	if by == nil {
		by = new(net.Dialer).DialContext
	}
	conn, err := by(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s.made.Add(1)
	s.open.Add(1)
	return &socket{Conn: conn, of: s}, nil
}

type socket struct {
	net.Conn
	of   *sockets
	once sync.Once
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.of.read.Add(int64(n))
	return n, err
}

func (s *socket) Close() error {
	s.once.Do(func() { s.of.open.Add(-1) })
	return s.Conn.Close()
}

// CloseWrite keeps what a socket can do.
func (s *socket) CloseWrite() error { return closeWrite(s.Conn) }
