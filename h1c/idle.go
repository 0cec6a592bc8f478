package h1c

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// idleConn looks at a conn that has nothing to say, without waiting.
type idleConn struct {
	conn   net.Conn
	secure bool            // conn is TLS
	socket syscall.RawConn // at the bottom of conn; nil: it cannot be reached
	ahead  readAhead       // below conn, or conn itself; nil: there is none
}

func newIdleConn(conn net.Conn, secure bool) idleConn {
	i := idleConn{conn: conn, secure: secure}
	for layer := conn; layer != nil; {
		if ahead, ok := layer.(readAhead); ok {
			i.ahead = ahead
		}
		if sc, ok := layer.(syscall.Conn); ok {
			i.socket, _ = sc.SyscallConn()
			break
		}
		wrapper, ok := layer.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		layer = wrapper.NetConn()
	}
	return i
}

// errSpoke is a peer that said something which belongs to no response, or says goodbye.
var errSpoke = errors.New("the peer sent something out of turn")

// quiet gives the reason why conn cannot be used: the peer has closed it, or a byte came that belongs to no response.
// Messages of TLS between records of data are taken note of. What cannot be known is taken to be well; but of TLS that
// cannot be read without waiting, any byte is taken for the goodbye that it most likely is.
func (i *idleConn) quiet() error {
	if i.socket != nil {
		readable, err := peek(i.socket)
		switch {
		case err != nil:
			return err
		case readable && i.ahead == nil:
			return errSpoke
		case readable:
			if err := i.ahead.Fill(); err != nil { // it does not wait
				return err
			}
		}
	}
	var b [1]byte
	var n int
	var err error
	switch {
	case i.ahead != nil:
		i.ahead.Gather(true)
		n, err = i.conn.Read(b[:])
		i.ahead.Gather(false)
	case i.secure: // a record may have been read in part
		i.conn.SetReadDeadline(time.Unix(1, 0))
		n, err = i.conn.Read(b[:])
		i.conn.SetReadDeadline(time.Time{})
	default:
		return nil
	}
	switch {
	case n > 0:
		return errSpoke
	case isTemporary(err):
		return nil
	}
	return err
}
