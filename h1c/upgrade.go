package h1c

import (
	"io"
	"net"
	"net/http"
	"sync"
)

// Upgraded is the body of a 101 response: the connection itself, which HTTP has left. Bytes that came
// with the response are read first. One goroutine may read while others write.
type Upgraded struct {
	c  *Conn
	up *upload // of the request; nil: it had no body

	mu     sync.Mutex // held while reading
	behind []byte     // what came with the response
}

// upgrade gives the connection to the response's body.
func (x *exchange) upgrade() *Upgraded {
	c := x.c
	u := &Upgraded{c: c, up: x.up}
	if n := c.in.buffered(); n > 0 {
		u.behind = append(make([]byte, 0, n), c.in.bytes()...)
	}
	c.in.release()
	if x.stop != nil {
		x.stop()
	}
	c.mu.Lock()
	x.over = true
	if c.err == nil {
		c.upgraded, c.err = true, ErrClosed
	}
	c.wire.end()
	c.mu.Unlock()
	return u
}

// Read reads from the connection, first what was buffered.
func (u *Upgraded) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.behind) == 0 {
		return u.c.wire.Read(p)
	}
	if u.c.wire.isClosed() {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, u.behind)
	if u.behind = u.behind[n:]; len(u.behind) == 0 {
		u.behind = nil
	}
	return n, nil
}

// WriteTo writes all that comes to w, first what was buffered. The conn's own WriteTo does it, if it has one: so the kernel may
// copy by itself between two TCP conns.
func (u *Upgraded) WriteTo(w io.Writer) (int64, error) {
	u.mu.Lock()
	behind := u.behind
	u.behind = nil
	u.mu.Unlock()
	var n int64
	if len(behind) > 0 {
		m, err := w.Write(behind)
		if n = int64(m); err != nil {
			return n, err
		}
	}
	var src io.Reader = u.c.wire.Conn
	if _, ok := src.(io.WriterTo); !ok {
		src = struct{ io.Reader }{u.c.wire}
	}
	m, err := io.Copy(w, src)
	if err != nil && u.c.wire.isClosed() {
		err = net.ErrClosed
	}
	return n + m, err
}

// ReadFrom writes all that src gives, as Write does. The conn's own ReadFrom does it, if it has one.
func (u *Upgraded) ReadFrom(src io.Reader) (int64, error) {
	if u.up != nil {
		<-u.up.ended
	}
	var dst io.Writer = u.c.wire.Conn
	if _, ok := dst.(io.ReaderFrom); !ok {
		dst = struct{ io.Writer }{u.c.wire}
	}
	n, err := io.Copy(dst, src)
	if err != nil && u.c.wire.isClosed() {
		err = net.ErrClosed
	}
	return n, err
}

// Write writes to the connection, after the request's body if that is still on its way.
func (u *Upgraded) Write(p []byte) (int, error) {
	if u.up != nil {
		<-u.up.ended
	}
	return u.c.wire.Write(p)
}

// CloseWrite closes the writing side, so that the peer reads EOF; reading goes on. It is
// errors.ErrUnsupported where the conn cannot.
func (u *Upgraded) CloseWrite() error {
	if u.up != nil {
		<-u.up.ended
	}
	return u.c.wire.CloseWrite()
}

// Close closes the connection.
func (u *Upgraded) Close() error {
	err := u.c.Close()
	if u.up != nil {
		u.up.let(false)
		u.up.close()
	}
	u.c.changed()
	return err
}

// Interface guards
var (
	_ io.ReadWriteCloser              = (*Upgraded)(nil)
	_ interface{ CloseWrite() error } = (*Upgraded)(nil)
)
