package h1c

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Config tunes a Conn. The zero value, or a nil *Config, works.
type Config struct {
	// MaxResponseHeader is the most bytes a response's head may have, the unseen interim ones before it included.
	// 0: 10 MiB.
	MaxResponseHeader int64
	// ReadBuffer and WriteBuffer are the sizes in bytes of the buffers between the messages and the
	// conn. 0: 4 KiB each.
	ReadBuffer, WriteBuffer int
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

// Conn is one HTTP/1.1 connection: one request at a time. All methods may be called concurrently.
type Conn struct {
	wire     *wire
	cc       *http.ClientConn
	tls      *tls.ConnectionState
	notify   atomic.Pointer[func()]
	upgraded atomic.Bool // a 101 was received: its body is the only user of the conn
}

// New makes conn an HTTP/1.1 connection and owns it from now on: New closes it on error, Close closes it
// later. Nothing is written. cfg may be nil; it is not kept.
func New(conn net.Conn, cfg *Config) (*Conn, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	c := &Conn{wire: newWire(conn, cfg.ReadTimeout, cfg.WriteTimeout)}
	if cs, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := cs.ConnectionState()
		c.tls = &state
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		Protocols:              protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: cfg.MaxResponseHeader,
		ReadBufferSize:         cfg.ReadBuffer,
		WriteBufferSize:        cfg.WriteBuffer,
		ResponseHeaderTimeout:  cfg.ResponseHeaderTimeout,
		ExpectContinueTimeout:  cfg.ExpectContinueTimeout,
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return c.wire, nil },
	}
	cc, err := t.NewClientConn(context.Background(), "http", "conn.invalid:80")
	if err != nil {
		c.wire.Close()
		return nil, &Error{Op: "new", Err: err, unprocessed: true, unanswered: true}
	}
	c.cc = cc
	cc.SetStateHook(c.stateChanged)
	return c, nil
}

// Reserve takes the slot of one request, and reports whether it was free. It must be followed by one
// RoundTrip or one Release.
func (c *Conn) Reserve() bool { return c.cc.Reserve() == nil }

// Release gives back a slot that was not used.
func (c *Conn) Release() { c.cc.Release() }

// Shareable reports that a Conn carries one request at a time only.
func (c *Conn) Shareable() bool { return false }

// InFlight is 1 while the slot is taken or an upgraded stream is open, else 0.
func (c *Conn) InFlight() int {
	if c.upgraded.Load() {
		if c.wire.isClosed() {
			return 0
		}
		return 1
	}
	return c.cc.InFlight()
}

// Err is nil while the connection can take new requests, now or when the slot is free. Otherwise it is ErrClosed, with what
// ended the connection behind it.
func (c *Conn) Err() error {
	if !c.upgraded.Load() && !c.wire.isClosed() && c.cc.Err() == nil {
		return nil
	}
	if died := c.wire.diedOf(); died != nil {
		return fmt.Errorf("%w: %w", ErrClosed, died)
	}
	return ErrClosed
}

// Notify sets what is called after the slot became free or the connection died: from any goroutine that
// uses the Conn (Reserve and Close included) or one of the Conn's own, and no lock of the Conn held. f must
// not block. It replaces an earlier one.
func (c *Conn) Notify(f func()) {
	c.notify.Store(&f)
	if c.Err() != nil {
		go f()
	}
}

func (c *Conn) stateChanged(*http.ClientConn) { c.changed() }

func (c *Conn) changed() {
	if f := c.notify.Load(); f != nil {
		(*f)()
	}
}

// Close closes the connection; what is in flight on it fails, an upgraded stream too. It does not wait.
func (c *Conn) Close() error {
	c.cc.Close()
	return c.wire.Close()
}
