package h2c

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/net/nettest"
)

// splice is an HTTP/2 server that joins the two CONNECT streams to one authority.
type splice struct {
	mu      sync.Mutex
	waiting map[string]*half
}

type half struct {
	w     http.ResponseWriter
	r     *http.Request
	other chan *half
}

func (s *splice) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := &half{w: w, r: r, other: make(chan *half, 1)}
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	s.mu.Lock()
	first := s.waiting[r.Host]
	if first == nil {
		s.waiting[r.Host] = h
	} else {
		delete(s.waiting, r.Host)
		first.other <- h
		h.other <- first
	}
	s.mu.Unlock()
	select {
	case other := <-h.other:
		copyFlush(h.w, other.r.Body)
	case <-r.Context().Done():
	}
}

func copyFlush(w http.ResponseWriter, r io.Reader) {
	rc := http.NewResponseController(w)
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			rc.Flush()
		}
		if err != nil {
			return
		}
	}
}

func TestConnectIsNetConn(t *testing.T) {
	// Two connections: on one, a stream that is not read would take the server's window from the other.
	server := &splice{waiting: map[string]*half{}}
	a, b := dialServer(t, server), dialServer(t, server)
	pipes := 0
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		pipes++
		host := fmt.Sprintf("pipe%d.invalid:1", pipes)
		open := func(c *Conn) net.Conn {
			if err != nil {
				return nil
			}
			if !c.Reserve() {
				t.Fatal("no slot")
			}
			var conn net.Conn
			conn, _, err = c.Connect(context.Background(), host, nil)
			return conn
		}
		c1, c2 = open(a), open(b)
		return c1, c2, func() { c1.Close(); c2.Close() }, err
	})
}
