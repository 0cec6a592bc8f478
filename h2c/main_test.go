package h2c

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(10 * time.Second); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "leaked goroutines:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked waits until only the test's own goroutine is left, and gives the stacks of the others if that
// takes longer than patience.
func leaked(patience time.Duration) string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !strings.Contains(g, "h2c.leaked(") && !strings.Contains(g, "os/signal.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		select {
		case <-deadline.C:
			return strings.Join(left, "\n\n")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

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
