package pool

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// wrap makes the response's body give its connection back when it is over.
func (p *Pool) wrap(res *http.Response, e *entry) {
	u := &usage{p: p, e: e}
	if rw, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = &upgraded{rw, u}
		return
	}
	if res.Body == nil || res.Body == http.NoBody {
		res.Body = http.NoBody
		u.end()
		return
	}
	res.Body = &responseBody{res.Body, u}
}

// usage is one request's use of a connection and of its identity.
type usage struct {
	p    *Pool
	e    *entry
	over atomic.Bool
}

func (u *usage) end() {
	if u.over.Swap(true) {
		return
	}
	u.p.mu.Lock()
	u.p.done(u.e)
	u.p.leave(u.e.id)
	u.p.unlock()
}

// responseBody ends its usage at its end.
type responseBody struct {
	rc io.ReadCloser
	u  *usage
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if err == io.EOF {
		b.u.end()
	}
	return n, err
}

func (b *responseBody) Close() error {
	err := b.rc.Close()
	b.u.end()
	return err
}

// upgraded is the body of a 101: the connection left HTTP, and the pool when it is closed.
type upgraded struct {
	io.ReadWriteCloser
	u *usage
}

// WriteTo and ReadFrom are those of the connection, which may have a shorter way than through a buffer.
func (b *upgraded) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, b.ReadWriteCloser) }

func (b *upgraded) ReadFrom(r io.Reader) (int64, error) { return io.Copy(b.ReadWriteCloser, r) }

// CloseWrite closes the writing side, if the connection can.
func (b *upgraded) CloseWrite() error {
	if cw, ok := b.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (b *upgraded) Close() error {
	err := b.ReadWriteCloser.Close()
	if !b.u.over.Load() {
		b.u.p.mu.Lock()
		b.u.p.remove(b.u.e)
		b.u.p.unlock()
	}
	b.u.end()
	return err
}
