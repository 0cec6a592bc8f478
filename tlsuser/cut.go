package tlsuser

import (
	"io"
	"net"
)

// cutError is the end of the conn beneath where TLS has not said that it would come. It tells what went before from what is
// whole: errors.Is finds io.ErrUnexpectedEOF.
type cutError struct{}

func (cutError) Error() string { return "the connection was closed without TLS being closed" }
func (cutError) Unwrap() error { return io.ErrUnexpectedEOF }

// guarded is the conn beneath TLS. crypto/tls takes its end between two records for a proper end of the stream, although
// whoever carries the connection can make one, and with it cut off what only the end of the connection ends.
type guarded struct {
	net.Conn
	up bool // the handshake is done
}

func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	switch {
	case err != io.EOF || !g.up:
		return n, err
	case n > 0:
		return n, nil // the end comes again, and the last record may be a goodbye
	}
	return 0, cutError{}
}

// NetConn returns the conn beneath, for those who look for what it can do besides.
func (g *guarded) NetConn() net.Conn { return g.Conn }
