package h1c

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config tunes a Conn. The zero value, or a nil *Config, works.
type Config struct {
	// MaxResponseHeader is the most bytes a response's head may have, the unseen interim ones before it included.
	// 0: 10 MiB.
	MaxResponseHeader int64
	// ReadBuffer is the size in bytes of the buffer that a response's head is read into, at least 64; reads of its body that
	// are as large go past it. 0: 4 KiB.
	ReadBuffer int
	// WriteBuffer is the most bytes of a request's body that are sent in one write, at least 512. 0: 32 KiB.
	WriteBuffer int
	// ResponseHeaderTimeout bounds the wait for a response's head once the request is fully written. 0: none.
	ResponseHeaderTimeout time.Duration
	// ExpectContinueTimeout bounds the wait for "100 Continue" before the body of a request with
	// "Expect: 100-continue" is sent anyway. 0: it is sent at once.
	ExpectContinueTimeout time.Duration
	// ReadTimeout and WriteTimeout bound each read and each write of the conn while a message is in
	// flight; when one fires, the connection fails. A write that succeeds starts the read's time anew, so
	// that a long upload is not a silent peer. They are not applied to an idle connection, nor after a 101. 0: none.
	ReadTimeout, WriteTimeout time.Duration
}

func (c *Config) maxResponseHeader() int64 {
	if c.MaxResponseHeader <= 0 {
		return 10 << 20
	}
	return c.MaxResponseHeader
}

func (c *Config) readBuffer() int {
	if c.ReadBuffer <= 0 {
		return 4 << 10
	}
	return max(c.ReadBuffer, 64)
}

func (c *Config) writeBuffer() int {
	if c.WriteBuffer <= 0 {
		return 32 << 10
	}
	return max(c.WriteBuffer, 512)
}

// Conn is one HTTP/1.1 connection: one request at a time. All methods may be called concurrently. It has no goroutine
// while it idles, so that it learns that the peer has closed it from the next Reserve.
type Conn struct {
	cfg  Config
	wire *wire
	tls  *tls.ConnectionState // nil: cleartext
	in   input                // belongs to the exchange
	idle idleConn

	mu       sync.Mutex // guards the following and what exchange says
	reserved bool       // the slot is taken, and not by x yet
	x        *exchange  // nil: none is in flight
	used     bool       // the slot was taken before
	upgraded bool       // a 101 was received: its body is the only user of the conn
	err      error
	notify   func()
}

// New makes conn an HTTP/1.1 connection and owns it from now on: Close closes it. Nothing is read or written. The error is
// nil. cfg may be nil; it is copied.
func New(conn net.Conn, cfg *Config) (*Conn, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	c := &Conn{cfg: *cfg}
	c.wire = &wire{Conn: conn, readTimeout: cfg.ReadTimeout, writeTimeout: cfg.WriteTimeout}
	if secure, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := secure.ConnectionState()
		c.tls = &state
	}
	c.idle = newIdleConn(conn, c.tls != nil)
	c.in = input{w: c.wire, ahead: c.idle.ahead, size: cfg.readBuffer()}
	return c, nil
}

// Reserve takes the slot of one request, and reports whether it was free. It must be followed by one
// RoundTrip or one Release. It looks whether the peer has closed the connection meanwhile, without waiting for anything;
// then the slot is not free, Err says so, and Close is still to be called.
func (c *Conn) Reserve() bool {
	c.mu.Lock()
	if c.err != nil || c.reserved || c.x != nil {
		c.mu.Unlock()
		return false
	}
	c.reserved = true
	look := c.used
	c.used = true
	c.mu.Unlock()
	if !look {
		return true
	}
	died := c.idle.quiet()
	if died == nil {
		return true
	}
	c.mu.Lock()
	c.reserved = false
	if c.err == nil {
		c.err = closedBy(died)
	}
	c.mu.Unlock()
	c.changed()
	return false
}

// closedBy is ErrClosed with what ended the connection behind it, if that is more than its end and not a request's own.
func closedBy(err error) error {
	for _, own := range []error{io.EOF, net.ErrClosed, context.Canceled, context.DeadlineExceeded, http.ErrBodyReadAfterClose, errNotSent} {
		if err == nil || errors.Is(err, own) {
			return ErrClosed
		}
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// Release gives back a slot that was not used.
func (c *Conn) Release() {
	c.mu.Lock()
	had := c.reserved
	c.reserved = false
	c.mu.Unlock()
	if had {
		c.changed()
	}
}

// begin makes the reserved slot that of x.
func (c *Conn) begin(x *exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case !c.reserved:
		return errNoSlot
	}
	c.reserved, c.x = false, x
	c.wire.begin()
	return nil
}

func (c *Conn) setUpload(x *exchange, up *upload) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.up = up
}

// free ends x and gives its slot back. It unlocks c.mu.
func (c *Conn) free(x *exchange) {
	x.over = true
	c.x = nil
	c.wire.end()
	c.mu.Unlock()
	c.changed()
}

// Shareable reports that a Conn carries one request at a time only.
func (c *Conn) Shareable() bool { return false }

// InFlight is 1 while the slot is taken or an upgraded stream is open, else 0. The slot is taken until both messages are
// over: where a response comes early, that is a short time after its end.
func (c *Conn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.upgraded && !c.wire.isClosed():
		return 1
	case c.err == nil && (c.reserved || c.x != nil):
		return 1
	}
	return 0
}

// Err is nil while the connection can take new requests, now or when the slot is free. Otherwise it is ErrClosed, with what
// ended the connection behind it.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Notify sets what is called after the slot became free or the connection turned out to be dead: from any goroutine that
// uses the Conn (Reserve and Close included) or one of a request's, and no lock of the Conn held. If it is dead already, f
// is called in the background. f must not block. It replaces an earlier one.
func (c *Conn) Notify(f func()) {
	c.mu.Lock()
	c.notify = f
	dead := c.err != nil
	c.mu.Unlock()
	if dead {
		go f()
	}
}

func (c *Conn) changed() {
	c.mu.Lock()
	f := c.notify
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// Close closes the connection; what is in flight on it fails, an upgraded stream too. It does not wait.
func (c *Conn) Close() error { return c.closeFor(nil) }

// closeFor is Close for a reason.
func (c *Conn) closeFor(reason error) error {
	c.mu.Lock()
	was := c.err
	if was == nil {
		c.err = closedBy(reason)
	}
	c.mu.Unlock()
	err := c.wire.Close()
	if was == nil {
		c.changed()
	}
	return err
}
