package h1c

import (
	"io"
	"net/http"
)

// Upgraded is the body of a 101 response: the connection itself, which HTTP has left. Bytes that came
// with the response are read first. One goroutine may read while others write.
type Upgraded struct {
	c   *Conn
	rwc io.ReadWriteCloser
}

// upgrade gives the connection to the response's body.
func (c *Conn) upgrade(res *http.Response) {
	rwc, ok := res.Body.(io.ReadWriteCloser)
	if !ok { // 101 without an Upgrade field: there is nothing to switch to
		res.Body = &body{c: c, rc: res.Body, ctx: res.Request.Context()}
		return
	}
	c.upgraded.Store(true)
	res.Body = &Upgraded{c: c, rwc: rwc}
}

// Read reads from the connection, first what was buffered.
func (u *Upgraded) Read(p []byte) (int, error) { return u.rwc.Read(p) }

// Write writes to the connection.
func (u *Upgraded) Write(p []byte) (int, error) { return u.c.wire.Write(p) }

// CloseWrite closes the writing side, so that the peer reads EOF; reading goes on. It is
// errors.ErrUnsupported where the conn cannot.
func (u *Upgraded) CloseWrite() error { return u.c.wire.CloseWrite() }

// Close closes the connection.
func (u *Upgraded) Close() error {
	err := u.c.Close()
	u.c.changed()
	return err
}

// Interface guards
var (
	_ io.ReadWriteCloser              = (*Upgraded)(nil)
	_ interface{ CloseWrite() error } = (*Upgraded)(nil)
)
