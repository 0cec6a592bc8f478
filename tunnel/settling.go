package tunnel

import (
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// closeGrace is how long closing a carrier may take (TLS says goodbye) before its socket is closed.
const closeGrace = 250 * time.Millisecond

// settling is the conn beneath HTTP/2, which tells when the peer's first frame was processed. That is its SETTINGS
// (RFC 9113 section 3.4): until then nobody knows how many streams it allows. The engine processes what it was given
// before it reads on, so the frame is through once a read begins after its last byte was returned. A peer that begins with
// anything else does not speak HTTP/2.
type settling struct {
	net.Conn

	mu      sync.Mutex // guards what follows
	settled bool
	then    func()
	head    [4]byte // the length and the type that the frame begins with
	got     int     // bytes returned so far
	err     error   // what ended the reads
}

const frameHead = 9

var errNotHTTP2 = errors.New("it does not speak HTTP/2: write https://")

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
	if !s.count(p[:n]) {
		n, err = 0, errNotHTTP2
	}
	if err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		s.settle()
	}
	return n, err
}

// ended is what ended the reads, if anything has.
func (s *settling) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// begun tells whether the conn is settled or over.
func (s *settling) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

func (s *settling) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int(s.head[0])<<16 | int(s.head[1])<<8 | int(s.head[2])
	return !s.settled && s.got >= frameHead+size
}

// count notes what was read, and reports whether it can be HTTP/2.
func (s *settling) count(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got < len(s.head) {
		copy(s.head[s.got:], p)
	}
	s.got += len(p)
	return s.got < len(s.head) || http2.FrameType(s.head[3]) == http2.FrameSettings
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
