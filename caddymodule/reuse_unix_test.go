//go:build unix

package caddymodule

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestDeadBeforeUse has the origin close idle connections. A request that is not safe to repeat goes over another one
// and is sent once, through TLS and proxies' TLS: the end of the connection is seen before it is used.
func TestDeadBeforeUse(t *testing.T) {
	b := newBed(t)
	for _, way := range []string{"direct", "http", "https", "socks5"} {
		for _, protocol := range []string{"h1", "h1-cleartext"} {
			t.Run("P06_dead_before_use_"+way+"_"+protocol, func(t *testing.T) {
				tr := b.transport(way, protocol)
				provision(t, tr)
				dialed := make(chan *net.TCPConn, 8)
				dial := tr.dial
				tr.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := dial(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					dialed <- conn.(*net.TCPConn)
					return conn, nil
				}
				exchange(t, tr, b.request(t, protocol, "/bytes/1KiB"))
				b.origin.DropConns()
				awaitReadable(t, <-dialed)
				before := len(b.origin.Requests())
				req := b.request(t, protocol, "/upload")
				req.Method, req.Body, req.ContentLength = "POST", io.NopCloser(struct{ io.Reader }{strings.NewReader("data")}), 4
				exchange(t, tr, req)
				if got := len(b.origin.Requests()) - before; got != 1 {
					t.Errorf("the origin got it %d times", got)
				}
			})
		}
	}
}

// awaitReadable waits until the peer of a socket has closed it, or says goodbye within TLS.
func awaitReadable(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "the end of the idle connection", func() bool {
		var err error
		raw.Read(func(fd uintptr) bool {
			_, _, err = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			return true
		})
		return err != syscall.EAGAIN
	})
}
