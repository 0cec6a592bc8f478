package h1c

import (
	"context"
	"io"
	"sync/atomic"
)

// body is a response body. A connection whose body was not read to its end is closed with it.
type body struct {
	c    *Conn
	rc   io.ReadCloser
	ctx  context.Context
	over chan struct{} // of wire.begin
	eof  atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if err == nil {
		return n, nil
	}
	if err == io.EOF {
		b.eof.Store(true)
	}
	b.c.wire.end(b.over)
	if err == io.EOF {
		return n, err
	}
	if cerr := b.ctx.Err(); cerr != nil {
		return n, cerr
	}
	return n, &Error{Op: "response body", Err: err}
}

func (b *body) Close() error {
	if !b.eof.Load() {
		b.c.Close()
	}
	err := b.rc.Close()
	b.c.wire.end(b.over)
	return err
}
