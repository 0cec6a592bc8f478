package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// recordedConn is an accepted connection whose end is recorded.
type recordedConn struct {
	net.Conn
	peer *peer
}

func (c *recordedConn) Close() error {
	err := c.Conn.Close()
	c.peer.ended()
	return err
}

// CloseWrite ends our direction only.
func (c *recordedConn) CloseWrite() error { return closeWrite(c.Conn) }

// NetConn returns the connection beneath.
func (c *recordedConn) NetConn() net.Conn { return c.Conn }

func (c *recordedConn) recorded() *peer { return c.peer }

// peerOf returns the peer of an accepted connection, below TLS or not; nil: it is not recorded.
func peerOf(conn net.Conn) *peer {
	if c, ok := beneathTLS(conn).(interface{ recorded() *peer }); ok {
		return c.recorded()
	}
	return nil
}

// acceptEach hands on what l accepts until it closes. Other failures, such as a lack of file descriptors, pass.
func acceptEach(ctx context.Context, l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			serve(conn)
		case errors.Is(err, net.ErrClosed) || !pause(ctx, 10*time.Millisecond):
			return
		}
	}
}

// seenListener records what it accepts and hands on connections that read a PROXY header, if one is there.
type seenListener struct {
	net.Listener
	name    string
	ledger  *ledger
	require bool // a PROXY header
}

func (l *seenListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p, ok := l.ledger.accept(conn, l.name); ok {
			return &seenConn{recordedConn: recordedConn{conn, p}, require: l.require}, nil
		}
	}
}

// seenConn is an accepted connection. Its first Read takes off a PROXY header.
type seenConn struct {
	recordedConn
	require bool

	once   sync.Once
	head   []byte // read while looking for a header, not a part of one
	failed error
}

func (c *seenConn) Read(b []byte) (int, error) {
	c.once.Do(c.readProxyHeader)
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	if c.failed != nil {
		return 0, c.failed
	}
	return c.Conn.Read(b)
}

func (c *seenConn) readProxyHeader() {
	source, rest, err := readProxyHeader(c.Conn)
	c.head, c.failed = rest, err
	if source != "" {
		c.peer.update(func(p *Peer) { p.ProxyHeader = source })
	} else if c.require && err == nil {
		c.head, c.failed = nil, errors.New("testbed: no PROXY header")
	}
}

// beneathTLS returns the connection that TLS runs over, or conn itself.
func beneathTLS(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// closeWrite ends the writing direction of a connection, or all of it where it has no such thing.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// reset closes conn so that the other end sees a reset where the network has one.
func reset(conn net.Conn) {
	conn = beneathTLS(conn) // TLS would say goodbye
	beneath := conn
	for {
		wrapper, ok := beneath.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		beneath = wrapper.NetConn()
	}
	if tcp, ok := beneath.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close below is a plain one
	}
	conn.Close()
}
