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

// closeGrace is how long closing TLS may take (it writes an alert) before the conn beneath is closed.
const closeGrace = 250 * time.Millisecond

// wire is the conn as an exchange uses it: it counts bytes, its reads and writes have deadlines while a message is in
// flight, and Close does not wait for a peer that stopped reading.
type wire struct {
	net.Conn
	readTimeout, writeTimeout time.Duration

	read    int64        // in this exchange; belongs to the goroutine that reads
	written atomic.Int64 // in this exchange, with what a Write under way may have given to the peer

	mu       sync.Mutex // guards the following and orders changes of the deadlines
	inFlight bool
	armed    bool      // there is a deadline
	gotHead  bool      // the response's head is here
	headBy   time.Time // when it has to be here; zero: at any time
	closed   bool
}

// begin starts an exchange.
func (w *wire) begin() {
	w.read = 0
	w.written.Store(0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight, w.gotHead = true, false
}

// end ends an exchange: the conn has no deadline any more.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight = false
	w.headBy = time.Time{}
	if w.armed && !w.closed {
		w.armed = false
		w.SetDeadline(time.Time{})
	}
}

// armRead gives the read that waits, or is about to, its time. w.mu is held.
func (w *wire) armRead() {
	by := w.headBy
	if w.inFlight && w.readTimeout > 0 {
		if silent := time.Now().Add(w.readTimeout); by.IsZero() || silent.Before(by) {
			by = silent
		}
	}
	if w.closed || by.IsZero() && !w.armed {
		return
	}
	w.armed = w.armed || !by.IsZero()
	w.SetReadDeadline(by)
}

func (w *wire) armWrite() {
	if w.inFlight && w.writeTimeout > 0 {
		w.armed = true
		w.SetWriteDeadline(time.Now().Add(w.writeTimeout))
	}
}

func (w *wire) locked(f func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

// awaitHead gives the response's head, if it is still to come, time d from now.
func (w *wire) awaitHead(d time.Duration) {
	w.locked(func(w *wire) {
		if w.inFlight && !w.gotHead {
			w.headBy = time.Now().Add(d)
			w.armRead()
		}
	})
}

// headCame ends what awaitHead began.
func (w *wire) headCame() {
	w.locked(func(w *wire) {
		w.gotHead = true
		if !w.headBy.IsZero() {
			w.headBy = time.Time{}
			w.armRead()
		}
	})
}

// headLate reports whether the time for the response's head is over.
func (w *wire) headLate() (late bool) {
	w.locked(func(w *wire) { late = !w.headBy.IsZero() && !time.Now().Before(w.headBy) })
	return late
}

func (w *wire) Read(p []byte) (int, error) {
	if w.readTimeout > 0 {
		w.locked((*wire).armRead)
	}
	n, err := w.Conn.Read(p)
	w.read += int64(n)
	if err != nil && w.isClosed() {
		err = net.ErrClosed
	}
	return n, err
}

// beginWrite counts n bytes, unless the conn is closed: then none of them may reach the peer any more.
func (w *wire) beginWrite(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.armWrite()
	w.written.Add(int64(n))
	return true
}

// Write may be called while a Read waits. The time of that Read starts anew.
func (w *wire) Write(p []byte) (int, error) {
	if !w.beginWrite(len(p)) {
		return 0, net.ErrClosed
	}
	n, err := w.Conn.Write(p)
	w.written.Add(int64(n - len(p)))
	if n < len(p) && err == nil {
		err = io.ErrShortWrite
	}
	switch {
	case err == nil && w.readTimeout > 0:
		w.locked((*wire).armRead)
	case err != nil && w.isClosed():
		err = net.ErrClosed
	}
	return n, err
}

func (w *wire) isClosed() (closed bool) {
	w.locked(func(w *wire) { closed = w.closed })
	return closed
}

// CloseWrite half-closes the conn, if it can.
func (w *wire) CloseWrite() error {
	if half, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
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
	w.SetReadDeadline(time.Unix(1, 0))
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
