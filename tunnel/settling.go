package tunnel

import (
	"net"
	"sync"
	"time"
)

// closeGrace is how long closing a carrier may take (TLS says goodbye) before its socket is closed.
const closeGrace = 250 * time.Millisecond

// settling is the conn beneath HTTP/2, which tells when the peer's first frame was processed. That is its SETTINGS
// (RFC 9113 section 3.4): until then nobody knows how many streams it allows. The engine processes what it was given
// before it reads on, so the frame is through once a read begins after its last byte was returned.
type settling struct {
	net.Conn

	mu      sync.Mutex // guards what follows
	settled bool
	then    func()
	head    [3]byte // the length that the frame begins with
	got     int     // bytes returned so far
}

const frameHead = 9

// whenSettled calls f once, when the conn is settled or over.
func (s *settling) whenSettled(f func()) {
	s.mu.Lock()
	settled := s.settled
	if !settled {
		s.then = f
	}
	s.mu.Unlock()
	if settled {
		f()
	}
}

// Read is called by one goroutine at a time.
func (s *settling) Read(p []byte) (int, error) {
	if s.complete() {
		s.settle()
	}
	n, err := s.Conn.Read(p)
	s.count(p[:n])
	if err != nil {
		s.settle()
	}
	return n, err
}

func (s *settling) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int(s.head[0])<<16 | int(s.head[1])<<8 | int(s.head[2])
	return !s.settled && s.got >= frameHead+size
}

func (s *settling) count(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got < len(s.head) {
		copy(s.head[s.got:], p)
	}
	s.got += len(p)
}

func (s *settling) settle() {
	s.mu.Lock()
	then := s.then
	s.settled, s.then = true, nil
	s.mu.Unlock()
	if then != nil {
		then()
	}
}

// Close does not wait for a peer that stopped reading.
func (s *settling) Close() error {
	s.settle()
	if beneath, ok := s.Conn.(interface{ NetConn() net.Conn }); ok {
		force := time.AfterFunc(closeGrace, func() { _ = beneath.NetConn().Close() })
		defer force.Stop()
	}
	return s.Conn.Close()
}
