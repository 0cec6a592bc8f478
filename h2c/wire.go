package h2c

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
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
	reading     atomic.Bool   // the engine has begun to read
	deaf        chan struct{} // closed when a read failed
	deafOnce    sync.Once
	processed   atomic.Pointer[func()] // called when the engine is done with all that it was given; nil: nothing

	mu     sync.Mutex // guards the following and orders changes of the read deadline
	active int        // requests in flight
	closed bool
	died   error // what ended the reads, unless it was our Close or the peer's
}

func newWire(conn net.Conn, readTimeout time.Duration) *wire {
	return &wire{Conn: conn, readTimeout: readTimeout, deaf: make(chan struct{})}
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
	w.reading.Store(true)
	if f := w.processed.Load(); f != nil {
		(*f)()
	}
	w.rearm()
	n, err := w.Conn.Read(p)
	switch {
	case err != nil && w.isClosed():
		err = net.ErrClosed
	case err != nil:
		err = beneath(err)
		w.die(err)
	}
	if err != nil {
		w.deafOnce.Do(func() { close(w.deaf) })
	}
	return n, err
}

func (w *wire) die(err error) {
	if err == io.EOF {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.died == nil {
		w.died = err
	}
}

// diedOf is what the engine forgets: why a connection ended that had no request.
func (w *wire) diedOf() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.died
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
	switch {
	case err == nil:
		w.rearm()
	case w.isClosed():
		err = net.ErrClosed
	case !w.reading.Load():
		err = w.lastWord(err)
	default:
		err = w.heard(err)
	}
	return n, err
}

// heard is why a peer takes no more, if the reader hears it now. err is what the write came to.
func (w *wire) heard(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return err
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-w.deaf:
	case <-grace.C:
	}
	return cmp.Or(w.diedOf(), err)
}

// lastWord is why a peer takes no preface, if it has said so: TLS 1.3 refuses a client's certificate when the client is done
// with its side of the handshake. err is what the write came to.
func (w *wire) lastWord(err error) error {
	w.Conn.SetReadDeadline(time.Now().Add(closeGrace))
	n, said := w.Conn.Read(make([]byte, 1))
	var ne net.Error
	if n > 0 || said == io.EOF || errors.As(said, &ne) && ne.Timeout() {
		return err
	}
	return beneath(said)
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
