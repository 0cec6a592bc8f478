package h1c

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// What is in memory is gathered.
func TestReadsGather(t *testing.T) {
	const size, records = 64 << 10, 4
	for name, framing := range map[string][3]string{
		"length": {"Content-Length: 65536\r\n\r\n", "", ""},
		"chunks": {"Transfer-Encoding: chunked\r\n\r\n", "4000\r\n", "\r\n"},
		"close":  {"Connection: close\r\n\r\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := stored()
			held := &corked{Conn: far}
			client, server := tlsUser(t, tlsuser.NewReadAhead(near, 2*size), held)
			c := own.between(t, nil, client, server, func(p *peer) {
				p.request()
				held.on = true
				p.send(ok11 + framing[0])
				for range records {
					p.send(framing[1] + strings.Repeat("x", size/records) + framing[2])
				}
				if name == "chunks" {
					p.send("0\r\n\r\n")
				}
				if name == "close" {
					server.(*tls.Conn).CloseWrite()
				}
				held.flush()
				io.Copy(io.Discard, p.br)
			})
			res := do(t, c, get(t, "/"))
			var sizes []int
			for buf := make([]byte, 32<<10); ; {
				n, err := res.Body.Read(buf)
				sizes = append(sizes, n)
				if err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if len(sizes) > 3 || sizes[0] != 32<<10 || sizes[1] != 32<<10 {
				t.Errorf("reads gave %v", sizes)
			}
		})
	}
}

// corked is a conn that keeps what is written, once it is on.
type corked struct {
	net.Conn
	on   bool
	kept []byte
}

func (c *corked) Write(p []byte) (int, error) {
	if !c.on {
		return c.Conn.Write(p)
	}
	c.kept = append(c.kept, p...)
	return len(p), nil
}

func (c *corked) flush() {
	c.Conn.Write(c.kept)
	c.on, c.kept = false, nil
}

// store is one direction of a connection in memory. A read gets all there is.
type store struct {
	mu     sync.Mutex
	filled *sync.Cond
	b      bytes.Buffer
	closed bool
}

// stored gives both ends of a connection whose near end reads from a store.
func stored() (near, far net.Conn) {
	s := new(store)
	s.filled = sync.NewCond(&s.mu)
	a, b := net.Pipe()
	return &storeReader{a, s}, &storeWriter{b, s}
}

type storeReader struct {
	net.Conn
	s *store
}

func (r *storeReader) Read(p []byte) (int, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for r.s.b.Len() == 0 && !r.s.closed {
		r.s.filled.Wait()
	}
	return r.s.b.Read(p)
}

type storeWriter struct {
	net.Conn
	s *store
}

func (w *storeWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	defer w.s.filled.Broadcast()
	return w.s.b.Write(p)
}

func (w *storeWriter) Close() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	defer w.s.filled.Broadcast()
	w.s.closed = true
	return w.Conn.Close()
}
