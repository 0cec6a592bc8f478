package h2c

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
)

// RoundTrip sends req in a slot taken by Reserve and returns once the response's head is there. Its
// scheme, URL and Host are taken as they are, whatever the connection leads to. Neither req nor its
// header is changed; the connection-specific fields are left out of what is sent (RFC 9113 section 8.2.2).
// Interim responses go to the Got1xxResponse of an httptrace.ClientTrace in req's context.
// The caller closes the response's body; ctx of req bounds the whole exchange, body included.
// Errors are *Error, and req.Body is closed.
func (c *Conn) RoundTrip(req *http.Request) (*http.Response, error) {
	x := c.newExchange(req.Context())
	out := req.WithContext(x.ctx)
	out.Header, out.Body = outgoing(req.Header), outgoingBody(req)
	c.wire.begin()
	res, err := c.cc.RoundTrip(out)
	x.settle() // the answer may come before the engine says what it wrote
	if err != nil {
		c.wire.end()
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, x.failed(req.Context(), "round trip", err)
	}
	res.Request = req
	res.TLS = c.tls
	if req.Method == http.MethodHead {
		res.Body.Close()
		res.Body = http.NoBody
		c.wire.end()
		return res, nil
	}
	res.Body = newBody(req, res.Body, c.wire.end)
	return res, nil
}

// exchange watches how far one request came.
type exchange struct {
	c                        *Conn
	ctx                      context.Context
	wrote, answered, settled atomic.Bool
}

func (c *Conn) newExchange(ctx context.Context) *exchange {
	x := &exchange{c: c}
	x.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() {
			x.wrote.Store(true)
			x.settle()
		},
		GotFirstResponseByte: func() { x.answered.Store(true) },
	})
	return x
}

// settle leaves the counting of the request's slot to the engine. The engine may hold a lock.
func (x *exchange) settle() {
	if !x.settled.Swap(true) && x.c.slots.settle() {
		go x.c.changed()
	}
}

// failed is the Error of the request.
func (x *exchange) failed(ctx context.Context, op string, err error) *Error {
	switch died := x.c.wire.diedOf(); {
	case err.Error() == textUnusable, err.Error() == textNotEstablished:
		err = x.c.closed()
	case died != nil && errors.Is(err, net.ErrClosed):
		err = died
	}
	return classify(ctx, op, err, x.wrote.Load(), x.answered.Load(), x.c.Err() == nil)
}

// connectionFields are what HTTP/2 has no place for.
var connectionFields = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"}

// outgoing is h as it may be sent: h itself, or a copy where something has to be different. It names
// User-Agent in any case, because the engine adds its own where the field is absent.
func outgoing(h http.Header) http.Header {
	_, hasAgent := h["User-Agent"]
	drop := !hasAgent
	for _, name := range connectionFields {
		if _, ok := h[name]; ok {
			drop = true
		}
	}
	te, hasTE := h["Te"]
	if !drop && !hasTE {
		return h
	}
	out := make(http.Header, len(h)+1)
	maps.Copy(out, h)
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name != "Te" {
				delete(out, name)
			}
		}
	}
	for _, name := range connectionFields {
		delete(out, name)
	}
	if hasTE {
		if httpguts.HeaderValuesContainsToken(te, "trailers") {
			out["Te"] = []string{"trailers"}
		} else {
			delete(out, "Te")
		}
	}
	if !hasAgent {
		out["User-Agent"] = nil
	}
	return out
}
