package h1c

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// closeGrace is how long closing TLS may take (it writes an alert) before the conn beneath is closed.
	closeGrace = 250 * time.Millisecond
	// answerGrace is how long a peer that takes no more of a request may take to begin its answer.
	answerGrace = 5 * time.Second
)

// wire is the conn as the engine sees it: it counts bytes, reads and writes have deadlines while a message
// is in flight, and Close does not wait for a peer that stopped reading.
type wire struct {
	net.Conn
	readTimeout, writeTimeout time.Duration

	read, written atomic.Int64
	closing       chan struct{} // closed by Close
	deaf          chan struct{} // closed when a read failed
	deafOnce      sync.Once
	died          error // what ended the reads, unless it was our Close or the peer's; set before deaf is closed

	mu     sync.Mutex    // guards the following and orders changes of the deadlines
	over   chan struct{} // closed when the message in flight is over; nil: none is
	closed bool
}

func newWire(conn net.Conn, readTimeout, writeTimeout time.Duration) *wire {
	return &wire{
		Conn:         conn,
		readTimeout:  readTimeout,
		writeTimeout: writeTimeout,
		closing:      make(chan struct{}),
		deaf:         make(chan struct{}),
	}
}

// begin starts an exchange of messages. The next one may begin before end is called for this one.
func (w *wire) begin() (over chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		close(w.over)
	}
	w.over = make(chan struct{})
	w.armRead()
	return w.over
}

// end ends the exchange that begin gave over for.
func (w *wire) end(over chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if over == nil || w.over != over {
		return
	}
	close(w.over)
	w.over = nil
	if w.closed {
		return
	}
	if w.readTimeout > 0 {
		w.Conn.SetReadDeadline(time.Time{})
	}
	if w.writeTimeout > 0 {
		w.Conn.SetWriteDeadline(time.Time{})
	}
}

// armRead gives the read that waits, or is about to, its time. w.mu is held.
func (w *wire) armRead() {
	if w.over != nil && w.readTimeout > 0 && !w.closed {
		w.Conn.SetReadDeadline(time.Now().Add(w.readTimeout))
	}
}

func (w *wire) armWrite() {
	if w.over != nil && w.writeTimeout > 0 && !w.closed {
		w.Conn.SetWriteDeadline(time.Now().Add(w.writeTimeout))
	}
}

func (w *wire) arm(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *wire) Read(p []byte) (int, error) {
	if w.readTimeout > 0 {
		w.arm(w.armRead)
	}
	n, err := w.Conn.Read(p)
	w.read.Add(int64(n))
	if err != nil {
		if w.isClosed() {
			err = net.ErrClosed
		}
		w.deafOnce.Do(func() {
			if err != io.EOF && err != net.ErrClosed {
				w.died = err
			}
			close(w.deaf)
		})
	}
	return n, err
}

// diedOf is what the engine forgets: why a connection ended that had no request.
func (w *wire) diedOf() error {
	select {
	case <-w.deaf:
		return w.died
	default:
		return nil
	}
}

func (w *wire) Write(p []byte) (int, error) {
	if w.writeTimeout > 0 {
		w.arm(w.armWrite)
	}
	start := w.read.Load()
	n, err := w.Conn.Write(p)
	w.written.Add(int64(n))
	if err == nil {
		if w.readTimeout > 0 {
			w.arm(w.armRead)
		}
		return n, nil
	}
	if w.isClosed() {
		return n, net.ErrClosed
	}
	w.awaitAnswer(err, start)
	return n, err
}

// awaitAnswer keeps back the failure of a write, because the engine drops the answer then: a peer that
// has read enough of a request (413, 401) answers and closes its reading side, and the answer is what counts.
func (w *wire) awaitAnswer(err error, start int64) {
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	var ne net.Error
	if over == nil || errors.As(err, &ne) && ne.Timeout() {
		return
	}
	timer := time.NewTimer(answerGrace)
	defer timer.Stop()
	for {
		select {
		case <-w.closing:
			return
		case <-w.deaf:
			return
		case <-over:
			return
		case <-timer.C:
			if w.read.Load() == start {
				return
			}
		}
	}
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// CloseWrite half-closes the conn, if it can.
func (w *wire) CloseWrite() error {
	if cw, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends every read at once and closes the conn, in the background where that may take time.
func (w *wire) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	close(w.closing)
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
