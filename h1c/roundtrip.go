package h1c

import (
	"maps"
	"net/http"
)

// RoundTrip sends req in the slot taken by Reserve and returns once the response's head is there. The
// request line is in origin form; Host is req.Host, else URL.Host. Neither req nor its header is changed.
// Interim responses, a 101 excepted, go to the Got1xxResponse of an httptrace.ClientTrace in req's context.
//
// The caller closes the response's body; a body closed before its end closes the connection. ctx of req
// bounds the whole exchange, body included; a request body whose Read blocks delays the return of a cancelled
// RoundTrip until that Read returns. The body of a 101 is an *Upgraded. Errors are *Error, and req.Body is closed.
func (c *Conn) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req
	if _, ok := req.Header["User-Agent"]; !ok {
		out = new(http.Request)
		*out = *req
		out.Header = withoutAgent(req.Header)
	}
	written, read := c.wire.written.Load(), c.wire.read.Load()
	over := c.wire.begin()
	res, err := c.cc.RoundTrip(out)
	if err != nil {
		c.wire.end(over)
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, classify(req.Context(), err, c.wire.written.Load()-written, c.wire.read.Load()-read, c.Err() == nil)
	}
	res.Request = req
	res.TLS = c.tls
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		c.wire.end(over)
		c.upgrade(res)
	case res.Body == http.NoBody:
		c.wire.end(over)
	default:
		res.Body = &body{c: c, rc: res.Body, ctx: req.Context(), over: over}
	}
	return res, nil
}

// withoutAgent is a copy of h that names User-Agent, without a value: the engine adds its own where the
// field is absent.
func withoutAgent(h http.Header) http.Header {
	out := make(http.Header, len(h)+1)
	maps.Copy(out, h)
	out["User-Agent"] = nil
	return out
}
