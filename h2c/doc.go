// Package h2c is one HTTP/2 client connection over a given net.Conn.
//
// The conn may be TLS with "h2" chosen by ALPN, or cleartext with prior knowledge; the package does not
// dial, does no TLS and knows no proxy:
//
//	c, err := h2c.New(ctx, conn, nil)
//	if err != nil {
//		return err // conn is closed
//	}
//	defer c.Close()
//	if c.Reserve() {
//		res, err := c.RoundTrip(req)
//		...
//	}
//
// A request is sent once: there is no retry, no redirect, no cookie jar, no decoding and no added header
// field. An *Error says what is provable about a request that failed, so that a pool can decide.
// Connect opens a CONNECT stream as a net.Conn, which is how a tunnel rides on an HTTP/2 proxy.
//
// Not done: server push (refused), priorities (ignored), extended CONNECT (RFC 8441), upgrade from HTTP/1.1.
//
// RFC 9113: HTTP/2; section 8.2.2 connection-specific fields, section 8.5 CONNECT. RFC 7541: HPACK.
package h2c
