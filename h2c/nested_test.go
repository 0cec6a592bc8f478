package h2c

import (
	"context"
	"net"
	"testing"

	"golang.org/x/net/http2"
)

// A nestedConn is a stream of another HTTP/2 connection, which resets it.
type nestedConn struct {
	net.Conn
	reset chan struct{}
}

func (c *nestedConn) Read([]byte) (int, error) {
	<-c.reset
	return 0, http2.StreamError{StreamID: 99, Code: http2.ErrCodeCancel}
}

// TestResetBeneath resets the stream that carries a connection. The engine must not take it for one of its own streams.
func TestResetBeneath(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		for buf := make([]byte, 4096); ; {
			if _, err := far.Read(buf); err != nil {
				return
			}
		}
	}()
	nested := &nestedConn{Conn: near, reset: make(chan struct{})}
	c, err := New(context.Background(), nested, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	defer c.Close()
	reserve(t, c)
	close(nested.reset)
	res, err := c.RoundTrip(get(t))
	if err == nil {
		res.Body.Close()
		t.Fatal("a response")
	}
	if c.Err() == nil {
		t.Error("the connection is still usable")
	}
}
