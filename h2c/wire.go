package h2c

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
)

// closeGrace is how long closing TLS may take (it writes an alert) before the conn beneath is closed.
const closeGrace = 250 * time.Millisecond

// wire is the conn as the engine sees it: reads have a deadline while a request is in flight, and Close
// does not wait for a peer that stopped reading.
type wire struct {
	net.Conn
	readTimeout time.Duration

	mu     sync.Mutex // guards the following and orders changes of the read deadline
	active int        // requests in flight
	closed bool
}

func newWire(conn net.Conn, readTimeout time.Duration) *wire {
	return &wire{Conn: conn, readTimeout: readTimeout}
}

// begin and end bracket a request.
func (w *wire) begin() {
	if w.readTimeout <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active++
	if w.active == 1 {
		w.arm()
	}
}

func (w *wire) end() {
	if w.readTimeout <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	if w.active == 0 && !w.closed {
		w.Conn.SetReadDeadline(time.Time{})
	}
}

// arm gives the read that waits, or is about to, its time. w.mu is held.
func (w *wire) arm() {
	if !w.closed {
		w.Conn.SetReadDeadline(time.Now().Add(w.readTimeout))
	}
}

func (w *wire) rearm() {
	if w.readTimeout <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active > 0 {
		w.arm()
	}
}

// Read reads with a fresh deadline if a request is in flight.
func (w *wire) Read(p []byte) (int, error) {
	w.rearm()
	n, err := w.Conn.Read(p)
	switch {
	case err != nil && w.isClosed():
		err = net.ErrClosed
	case err != nil:
		err = beneath(err)
	}
	return n, err
}

// beneath hides that the conn is itself a stream of HTTP/2. The engine takes a stream error of its reader for one of a
// stream of its own, and reads on for ever.
func beneath(err error) error {
	if stream, ok := errors.AsType[http2.StreamError](err); ok {
		return fmt.Errorf("%w: the tunnel was reset: %v", syscall.ECONNRESET, stream.Code)
	}
	return err
}

// Write counts as progress: a long upload is not a silent peer.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err == nil {
		w.rearm()
	} else if w.isClosed() {
		err = net.ErrClosed
	}
	return n, err
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// abort ends reads and writes that wait; the conn stays to be closed.
func (w *wire) abort() { w.Conn.SetDeadline(time.Unix(1, 0)) }

// Close ends every read at once and closes the conn, in the background where that may take time.
func (w *wire) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.Conn.SetReadDeadline(time.Unix(1, 0))
	w.mu.Unlock()
	if tc, ok := w.Conn.(*tls.Conn); ok {
		go closeTLS(tc)
		return nil
	}
	return w.Conn.Close()
}

// closeTLS says goodbye and closes, within closeGrace.
func closeTLS(tc *tls.Conn) {
	force := time.AfterFunc(closeGrace, func() { tc.NetConn().Close() })
	defer force.Stop()
	tc.Close()
}
