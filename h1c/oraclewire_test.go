package h1c

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// oracleWire is the conn as the engine sees it: it counts bytes, reads and writes have deadlines while a message
// is in flight, and Close does not wait for a peer that stopped reading.
type oracleWire struct {
	net.Conn
	readTimeout, writeTimeout time.Duration

	read, written atomic.Int64
	closing       chan struct{} // closed by Close
	deaf          chan struct{} // closed when a read failed
	deafOnce      sync.Once

	mu     sync.Mutex    // guards the following and orders changes of the deadlines
	over   chan struct{} // closed when the message in flight is over; nil: none is
	closed bool
}

func newOracleWire(conn net.Conn, readTimeout, writeTimeout time.Duration) *oracleWire {
	return &oracleWire{
		Conn:         conn,
		readTimeout:  readTimeout,
		writeTimeout: writeTimeout,
		closing:      make(chan struct{}),
		deaf:         make(chan struct{}),
	}
}

// begin starts an exchange of messages. The next one may begin before end is called for this one.
func (w *oracleWire) begin() (over chan struct{}) {
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
func (w *oracleWire) end(over chan struct{}) {
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
func (w *oracleWire) armRead() {
	if w.over != nil && w.readTimeout > 0 && !w.closed {
		w.Conn.SetReadDeadline(time.Now().Add(w.readTimeout))
	}
}

func (w *oracleWire) armWrite() {
	if w.over != nil && w.writeTimeout > 0 && !w.closed {
		w.Conn.SetWriteDeadline(time.Now().Add(w.writeTimeout))
	}
}

func (w *oracleWire) arm(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *oracleWire) Read(p []byte) (int, error) {
	if w.readTimeout > 0 {
		w.arm(w.armRead)
	}
	n, err := w.Conn.Read(p)
	w.read.Add(int64(n))
	if err != nil {
		w.deafOnce.Do(func() { close(w.deaf) })
		if w.isClosed() {
			err = net.ErrClosed
		}
	}
	return n, err
}

func (w *oracleWire) Write(p []byte) (int, error) {
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
func (w *oracleWire) awaitAnswer(err error, start int64) {
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

func (w *oracleWire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// CloseWrite half-closes the conn, if it can.
func (w *oracleWire) CloseWrite() error {
	if cw, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends every read at once and closes the conn, in the background where that may take time.
func (w *oracleWire) Close() error {
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
