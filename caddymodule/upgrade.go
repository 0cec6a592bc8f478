package caddymodule

import (
	"errors"
	"io"
	"net/http"

	"github.com/caddytunnel/caddytunnel/tunnel"
)

// upgraded makes the body of a 101 fit what reverse_proxy copies it to and from. It may do so by the connection's own WriteTo and
// ReadFrom, with which the kernel copies between two sockets, where that is what lies on either side. Elsewhere these would only
// take the place of reverse_proxy's buffer, whose size can be configured there.
func upgraded(req *http.Request, n *need, body io.ReadCloser) io.ReadCloser {
	stream, ok := body.(io.ReadWriteCloser)
	if !ok || req.TLS == nil && req.ProtoMajor == 1 && n.isBare() {
		return body
	}
	return &copied{stream}
}

// isBare reports whether what is sent to the origin is what its socket here carries.
func (n *need) isBare() bool {
	for i := range n.hops {
		switch n.hops[i].Dialect {
		case tunnel.Direct, tunnel.HTTP, tunnel.SOCKS5:
		default:
			return false
		}
	}
	return n.tls == nil
}

// copied is an upgraded stream that is copied through a buffer.
type copied struct{ io.ReadWriteCloser }

// CloseWrite closes the writing side, if the connection can.
func (c *copied) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
