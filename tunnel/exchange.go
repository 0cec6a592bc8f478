package tunnel

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// limit is ctx with what is left of the hop's own time, of which some may be spent.
func (h *Hop) limit(ctx context.Context, spent time.Duration) (context.Context, context.CancelFunc) {
	if left, bounded := h.timeout(spent); bounded {
		return context.WithTimeout(ctx, left)
	}
	return context.WithCancel(ctx)
}

// during runs ask, which talks over conn, and interrupts it when ctx ends. Then the error is that of ctx and conn is
// of no use any more; otherwise conn has no deadline afterwards.
func during(ctx context.Context, conn net.Conn, ask func() error) error {
	stop := context.AfterFunc(ctx, func() {
		if conn.SetDeadline(time.Unix(1, 0)) != nil {
			_ = conn.Close()
		}
	})
	err := ask()
	if !stop() {
		return ctx.Err()
	}
	return err
}

// prefixConn is a conn of whose stream the first bytes were read already.
type prefixConn struct {
	net.Conn
	drained  atomic.Bool
	closed   atomic.Bool
	deadline atomic.Pointer[time.Time] // of reads; nil: none

	mu     sync.Mutex // guards prefix
	prefix []byte
}

func newPrefixConn(conn net.Conn, prefix []byte) *prefixConn {
	return &prefixConn{Conn: conn, prefix: prefix}
}

// Read returns the prefix before anything of the conn beneath.
func (c *prefixConn) Read(p []byte) (int, error) {
	if c.drained.Load() {
		return c.Conn.Read(p)
	}
	c.mu.Lock()
	if len(c.prefix) == 0 {
		c.mu.Unlock()
		return c.Conn.Read(p)
	}
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	if d := c.deadline.Load(); d != nil && !time.Now().Before(*d) {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, c.prefix)
	c.prefix = c.prefix[n:]
	if len(c.prefix) == 0 {
		c.prefix = nil
		c.drained.Store(true)
	}
	return n, nil
}

func (c *prefixConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// CloseWrite closes the writing side of the conn beneath.
func (c *prefixConn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *prefixConn) SetDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetDeadline(t)
}

func (c *prefixConn) SetReadDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *prefixConn) noteDeadline(t time.Time) {
	if t.IsZero() {
		c.deadline.Store(nil)
		return
	}
	c.deadline.Store(&t)
}
