package h1c

import (
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

// quiet reports whether conn can be used: the peer has not closed it, and no byte came that belongs to no response. TLS
// messages between records of data are taken note of. What cannot be known is taken to be well; but of TLS that cannot be
// read without waiting, any byte is taken for the goodbye that it most likely is.
func (i *idleConn) quiet() bool {
	if i.socket != nil {
		readable, alive := peek(i.socket)
		switch {
		case !alive, readable && i.ahead == nil:
			return false
		case readable && i.ahead.Fill() != nil: // does not wait
			return false
		}
	}
	var b [1]byte
	switch {
	case i.ahead != nil:
		i.ahead.Gather(true)
		n, err := i.conn.Read(b[:])
		i.ahead.Gather(false)
		return n == 0 && isTemporary(err)
	case i.secure: // a record may have been decrypted in part
		i.conn.SetReadDeadline(time.Unix(1, 0))
		n, err := i.conn.Read(b[:])
		i.conn.SetReadDeadline(time.Time{})
		return n == 0 && isTemporary(err)
	}
	return true
}
