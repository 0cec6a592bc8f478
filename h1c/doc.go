// Package h1c is one HTTP/1.1 client connection over a given net.Conn.
//
// The conn may be cleartext or TLS; the package does not dial, does no TLS and knows no proxy:
//
//	c, err := h1c.New(conn, nil)
//	if err != nil {
//		return err // conn is closed
//	}
//	defer c.Close()
//	if c.Reserve() {
//		res, err := c.RoundTrip(req)
//		...
//	}
//
// A Conn has no goroutine of its own. RoundTrip writes the request and reads the response's head on the goroutine that
// calls it, and reads of the body go to the conn: a hand-over between goroutines costs more than all the rest of a small
// request. Only a request body that may block is read on another goroutine, so that an answer is seen while it blocks.
// What an idle connection's peer did is found out by the next Reserve, which looks at the socket.
//
// Reads of a body fill the caller's slice with what is in memory and wait for its first byte only. That needs a conn, or one
// beneath crypto/tls that is reached by NetConn methods, with two methods: Gather(bool), which makes a Read that has
// nothing in memory fail with an error whose Temporary() is true, and Fill() error, which reads once.
//
// A request is sent once: there is no retry, no redirect, no cookie jar, no decoding and no added header
// field. An *Error says what is provable about a request that failed, so that a pool can decide. Interim
// responses reach an httptrace.ClientTrace; "101 Switching Protocols" gives a body that can be written to.
//
// Not done: pipelining, requests in absolute form, CONNECT.
//
// RFC 9112: HTTP/1.1 messages; section 9.3 persistence. RFC 9110: sections 7.8 Upgrade, 10.1.1 Expect, 15.2 interim
// responses.
package h1c
