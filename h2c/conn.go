package h2c

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
	// MaxResponseHeader is the most bytes a response's header list may have, as RFC 9113 section 6.5.2
	// counts them. 0: 10 MiB.
	MaxResponseHeader int64
	// ResponseHeaderTimeout bounds the wait for a response's head once the request is fully written. 0: none.
	ResponseHeaderTimeout time.Duration
	// ExpectContinueTimeout bounds the wait for "100 Continue" before the body of a request with
	// "Expect: 100-continue" is sent anyway. 0: it is sent at once.
	ExpectContinueTimeout time.Duration
	// ReadTimeout bounds each read of the connection while a request is in flight; when it fires, the
	// connection and everything on it fails. CONNECT streams do not count as requests. 0: none.
	ReadTimeout time.Duration
	// WriteTimeout bounds how long a write may make no progress; when it fires, the connection fails. 0: none.
	WriteTimeout time.Duration
	// PingIdle is how long nothing may arrive before a PING asks whether the peer lives. 0: no PING.
	PingIdle time.Duration
	// PingTimeout is how long the answer to a PING may take before the connection fails with ErrSilent. 0: 15s.
	PingTimeout time.Duration
	// StreamWindow is the most bytes that the peer may send on a stream ahead of its reader, which are kept in memory:
	// less than 4 MiB. A reader that does not read holds nobody else up. 0: 1 MiB.
	StreamWindow int
}

const (
	// Over a round trip of 20 ms this carries 50 MB/s, and a hundred readers that do not read hold 100 MiB.
	defaultStreamWindow = 1 << 20

	// connWindow is the engine's, for all streams together. A stream takes of it until its reader has read: were it less than
	// theirs, readers that do not read would hold up the others.
	connWindow = 1 << 30
)

func (cfg *Config) streamWindow() int {
	if cfg.StreamWindow == 0 {
		return defaultStreamWindow
	}
	return cfg.StreamWindow
}

// Conn is one HTTP/2 connection. All methods may be called concurrently.
type Conn struct {
	wire   *wire
	cc     *http.ClientConn
	tls    *tls.ConnectionState
	most   int // streams at a time, so that their windows fit into connWindow
	slots  slots
	notify atomic.Pointer[func()]
}

// New starts HTTP/2 on conn, which it owns from now on: New closes it on error, Close closes it later.
// The preface is written before New returns, nothing is awaited from the peer. ctx bounds New only.
// cfg may be nil; it is not kept.
func New(ctx context.Context, conn net.Conn, cfg *Config) (*Conn, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	c := &Conn{wire: newWire(conn, cfg.ReadTimeout), most: connWindow / cfg.streamWindow()}
	if cs, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := cs.ConnectionState()
		c.tls = &state
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		Protocols:              protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: cfg.MaxResponseHeader,
		ResponseHeaderTimeout:  cfg.ResponseHeaderTimeout,
		ExpectContinueTimeout:  cfg.ExpectContinueTimeout,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:           cfg.PingIdle,
			PingTimeout:               cfg.PingTimeout,
			WriteByteTimeout:          cfg.WriteTimeout,
			MaxReceiveBufferPerStream: cfg.streamWindow(),
		},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return c.wire, nil },
	}
	stop := context.AfterFunc(ctx, c.wire.abort)
	cc, err := t.NewClientConn(context.WithoutCancel(ctx), "http", "conn.invalid:80")
	if !stop() && err == nil {
		cc.Close()
		err = ctx.Err()
	}
	if err != nil {
		c.wire.Close()
		return nil, classify(ctx, "new", err, false, false, false)
	}
	c.cc = cc
	cc.SetStateHook(c.stateChanged)
	tell := c.tellGoAway
	c.wire.processed.Store(&tell)
	return c, nil
}

// Reserve takes the slot of one request, and reports whether there was one: a slot is a stream within
// the peer's SETTINGS_MAX_CONCURRENT_STREAMS. It must be followed by one RoundTrip, Connect or Release.
//
// Before the peer's first SETTINGS arrive, a hundred streams are taken for granted. If it allows fewer, requests wait
// in RoundTrip for their turn, and those that are on their way already may be refused.
func (c *Conn) Reserve() bool { return c.slots.take(c.free) }

// free is the number of streams the engine would open now. One that died before its first request says it has some.
func (c *Conn) free() int {
	if c.cc.Err() != nil {
		return 0
	}
	return min(c.cc.Available(), c.most-c.cc.InFlight())
}

// Release gives back a slot that was not used.
func (c *Conn) Release() {
	c.slots.settle()
	c.changed()
}

// Shareable reports that a Conn carries more than one request at a time.
func (c *Conn) Shareable() bool { return true }

// InFlight is the number of requests, CONNECT streams and unused slots.
func (c *Conn) InFlight() int { return c.slots.count() + c.cc.InFlight() }

// Err is nil while the connection can take new requests, now or when a slot is free. Otherwise it is ErrClosed, with what
// ended the connection behind it.
func (c *Conn) Err() error {
	if c.cc.Err() != nil {
		return c.closed()
	}
	// An idle connection without a free slot is one that got GOAWAY.
	if c.cc.InFlight() == 0 && c.cc.Available() == 0 && c.cc.InFlight() == 0 {
		return ErrClosed
	}
	return nil
}

// closed is ErrClosed with what ended the connection, if that is known.
func (c *Conn) closed() error {
	if died := c.wire.diedOf(); died != nil {
		return fmt.Errorf("%w: %w", ErrClosed, died)
	}
	return ErrClosed
}

// Notify sets what is called after a slot became free or the connection died: from any goroutine that
// uses the Conn (Reserve and Close included) or one of the Conn's own, with no lock of the Conn held. f must not block. It
// replaces an earlier one.
func (c *Conn) Notify(f func()) {
	c.notify.Store(&f)
	if c.cc.Err() != nil {
		go f()
	}
}

func (c *Conn) stateChanged(*http.ClientConn) { c.changed() }

// tellGoAway tells of a GOAWAY that came while nothing was in flight, of which the engine says nothing. With something in flight it
// closes the connection when that is over, and tells.
func (c *Conn) tellGoAway() {
	if c.cc.InFlight() == 0 && c.cc.Err() == nil && c.Err() != nil {
		c.changed()
	}
}

func (c *Conn) changed() {
	if f := c.notify.Load(); f != nil {
		(*f)()
	}
}

// Close closes the connection; what is in flight on it fails. It does not wait.
func (c *Conn) Close() error { return c.cc.Close() }
