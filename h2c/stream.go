package h2c

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// linger is how long the peer of a closed stream may take to close its own side.
const linger = 3 * time.Second

// stream is a CONNECT stream as a net.Conn. Two in-memory pipes give it its deadlines: one is the body of
// the request, into the other receive copies the body of the response.
type stream struct {
	carrier net.Conn
	life    context.Context // the request's
	end     func()          // ends life; a stream that is not over is reset with CANCEL

	in       net.Conn // what the owner reads
	received net.Conn // the other side of in
	out      net.Conn // what the owner writes
	toSend   net.Conn // the other side of out: the request's body

	mu        sync.Mutex
	closed    bool  // by the owner
	sent      bool  // END_STREAM is written, or cannot be
	abandoned bool  // closed, and the peer goes on sending
	failure   error // why the receiving side ended before END_STREAM
}

func newStream(carrier net.Conn) *stream {
	s := &stream{carrier: carrier}
	s.life, s.end = context.WithCancel(context.Background())
	s.in, s.received = net.Pipe()
	s.out, s.toSend = net.Pipe()
	return s
}

// receive carries the response's body to the reader until either ends.
func (s *stream) receive(body io.ReadCloser) {
	buf := make([]byte, 32<<10)
	_, err := io.CopyBuffer(onlyWriter{s.received}, onlyReader{body}, buf)
	if err == nil { // the peer is done; sending may go on
		s.received.Close()
		return
	}
	s.fail(err)
	s.received.Close()
	<-s.life.Done()
	body.Close() // gives back the window of what was not read
}

// The pipes have fast paths of their own that would hide who failed.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// fail ends the stream: at once, or after Close when what was written before it is on its way.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.failure = cause(err)
	}
	if s.closed && !s.sent {
		s.abandoned = true
		return
	}
	s.end()
}

// written is called when the request's body is fully sent, or cannot be.
func (s *stream) written() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = true
	if s.abandoned {
		s.end()
	}
}

// discard frees the pipes of a stream that was never opened.
func (s *stream) discard() {
	for _, c := range []net.Conn{s.in, s.received, s.out, s.toSend} {
		c.Close()
	}
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	return n, s.cause(err)
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	return n, s.cause(err)
}

// cause says why a pipe is over.
func (s *stream) cause(err error) error {
	if err != io.EOF && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case s.failure != nil:
		return s.failure
	case err == io.EOF:
		return io.EOF
	}
	return net.ErrClosed
}

// CloseWrite sends END_STREAM; reading goes on.
func (s *stream) CloseWrite() error { return s.out.Close() }

func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	time.AfterFunc(linger, s.end)
	s.out.Close()
	s.in.Close()
	return nil
}

func (s *stream) LocalAddr() net.Addr  { return s.carrier.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr { return s.carrier.RemoteAddr() }

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.in.SetReadDeadline(t), s.out.SetWriteDeadline(t))
}
func (s *stream) SetReadDeadline(t time.Time) error  { return s.in.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.out.SetWriteDeadline(t) }
