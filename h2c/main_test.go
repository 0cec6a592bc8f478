package h2c

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// dialServer gives a Conn to a cleartext HTTP/2 server of this process.
func dialServer(t *testing.T, h http.Handler) *Conn {
	t.Helper()
	c, err := New(context.Background(), dialTCP(t, serve(t, h)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{Handler: h, Protocols: protocols}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return ln.Addr().String()
}

func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
