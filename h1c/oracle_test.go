package h1c

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
)

// oracle is net/http's engine behind the methods of Conn: what the tests of this package hold Conn against.
type oracle struct {
	wire     *oracleWire
	cc       *http.ClientConn
	notify   atomic.Pointer[func()]
	upgraded atomic.Bool
}

func newOracle(conn net.Conn, cfg *Config) (*oracle, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	c := &oracle{wire: newOracleWire(conn, cfg.ReadTimeout, cfg.WriteTimeout)}
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
		return nil, err
	}
	c.cc = cc
	cc.SetStateHook(func(*http.ClientConn) { c.changed() })
	return c, nil
}

func (c *oracle) Reserve() bool { return c.cc.Reserve() == nil }

func (c *oracle) Release() { c.cc.Release() }

func (c *oracle) Shareable() bool { return false }

func (c *oracle) InFlight() int {
	switch {
	case !c.upgraded.Load():
		return c.cc.InFlight()
	case c.wire.isClosed():
		return 0
	}
	return 1
}

func (c *oracle) Err() error {
	if c.upgraded.Load() || c.wire.isClosed() || c.cc.Err() != nil {
		return ErrClosed
	}
	return nil
}

func (c *oracle) Notify(f func()) {
	c.notify.Store(&f)
	if c.Err() != nil {
		go f()
	}
}

func (c *oracle) changed() {
	if f := c.notify.Load(); f != nil {
		(*f)()
	}
}

func (c *oracle) Close() error {
	c.cc.Close()
	return c.wire.Close()
}

func (c *oracle) RoundTrip(req *http.Request) (*http.Response, error) {
	out := new(http.Request)
	*out = *req
	out.Header = make(http.Header, len(req.Header)+1)
	maps.Copy(out.Header, req.Header)
	if _, ok := req.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // else it adds its own
	}
	written, read := c.wire.written.Load(), c.wire.read.Load()
	over := c.wire.begin()
	res, err := c.cc.RoundTrip(out)
	if err != nil {
		c.wire.end(over)
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, c.classify(req.Context(), err, c.wire.written.Load()-written, c.wire.read.Load()-read)
	}
	res.Request = req
	if rwc, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		c.wire.end(over)
		c.upgraded.Store(true)
		res.Body = &oracleUpgraded{c, rwc}
		return res, nil
	}
	res.Body = &oracleBody{c: c, rc: res.Body, ctx: req.Context(), over: over}
	if res.ContentLength == 0 || req.Method == http.MethodHead {
		c.wire.end(over)
	}
	return res, nil
}

func (c *oracle) classify(ctx context.Context, err error, written, read int64) *Error {
	e := &Error{Op: opRoundTrip, Err: err, unanswered: read == 0}
	if cerr := ctx.Err(); cerr != nil {
		e.Err = cerr
		return e
	}
	e.unprocessed = written == 0
	e.invalid = e.unprocessed && c.Err() == nil
	return e
}

type oracleBody struct {
	c    *oracle
	rc   io.ReadCloser
	ctx  context.Context
	over chan struct{}
	eof  atomic.Bool
}

func (b *oracleBody) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if err == nil {
		return n, nil
	}
	if err == io.EOF {
		b.eof.Store(true)
	} else if cerr := b.ctx.Err(); cerr != nil && !errors.Is(err, cerr) {
		err = cerr
	}
	b.c.wire.end(b.over)
	return n, err
}

func (b *oracleBody) Close() error {
	if !b.eof.Load() && b.rc != http.NoBody {
		b.c.Close()
	}
	err := b.rc.Close()
	b.c.wire.end(b.over)
	return err
}

type oracleUpgraded struct {
	c   *oracle
	rwc io.ReadWriteCloser
}

func (u *oracleUpgraded) Read(p []byte) (int, error) { return u.rwc.Read(p) }

func (u *oracleUpgraded) Write(p []byte) (int, error) { return u.c.wire.Write(p) }

func (u *oracleUpgraded) CloseWrite() error { return u.c.wire.CloseWrite() }

func (u *oracleUpgraded) Close() error {
	err := u.c.Close()
	u.c.changed()
	return err
}
