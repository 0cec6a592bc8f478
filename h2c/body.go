package h2c

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"sync"
)

// aPiece is the least that is taken from the engine at a time: to a peer that has used up its window it gives back what each
// read took, were it one byte.
const aPiece = 4 << 10

// body is a response body that tells when it is over, and that ends when its request's context does: the
// engine does not look at the context while it waits for a window to send the request's body in.
type body struct {
	rc     io.ReadCloser
	pieces *bufio.Reader // nil until a read is smaller than they are
	ctx    context.Context
	stop   func() bool
	over   func()
	once   sync.Once
}

func newBody(req *http.Request, rc io.ReadCloser, over func()) *body {
	b := &body{rc: rc, ctx: req.Context(), over: over}
	if req.Body != nil && req.Body != http.NoBody {
		b.stop = context.AfterFunc(b.ctx, func() { rc.Close() })
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.read(p)
	if err == nil {
		return n, nil
	}
	b.once.Do(b.over)
	if err == io.EOF {
		return n, err
	}
	if cerr := b.ctx.Err(); cerr != nil {
		return n, cerr
	}
	return n, &Error{Op: "response body", Err: cause(err)}
}

func (b *body) read(p []byte) (int, error) {
	if b.pieces == nil {
		if len(p) >= aPiece {
			return b.rc.Read(p)
		}
		b.pieces = bufio.NewReaderSize(b.rc, aPiece)
	}
	return b.pieces.Read(p)
}

func (b *body) Close() error {
	if b.stop != nil {
		b.stop()
	}
	err := b.rc.Close()
	b.once.Do(b.over)
	return err
}
