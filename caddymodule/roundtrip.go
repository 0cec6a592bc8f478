package caddymodule

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/caddytunnel/caddytunnel/body"
	"github.com/caddytunnel/caddytunnel/pool"
)

// healthCheckAgent is what health checks of the `http` transport call themselves, which origins may know them by.
const healthCheckAgent = "Go-http-client/1.1"

// RoundTrip sends the request over a connection of its identity and guards the response's body. Neither req nor its
// headers are changed: reverse_proxy uses the same request for its next attempt.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	n, err := t.need(req)
	if err != nil {
		return nil, t.failed(req, err)
	}
	guard := t.guardFor(req, n)
	out := t.outgoing(req, n, guard)
	dial := func(ctx context.Context, memory *pool.Memory) (pool.Conn, error) {
		return t.connect(ctx, n, memory)
	}
	res, err := t.pool.RoundTrip(out, n.identity(t.key[:]), dial, nil)
	if err != nil {
		return nil, t.failed(req, toError(req.Context(), n.addr, err))
	}
	res.Request = req
	if err := guard.Response(req, res); err != nil {
		return t.refuseBody(req, n, res, err)
	}
	return res, nil
}

// outgoing is the request as it goes to the origin.
func (t *Transport) outgoing(req *http.Request, n *need, guard *body.Guard) *http.Request {
	out := new(http.Request)
	*out = *req
	u := *req.URL
	u.Scheme, u.Host = n.scheme, n.addr
	if n.network == "unix" {
		u.Host = "localhost"
	}
	out.URL = &u
	if req.Trailer != nil {
		out.Trailer = make(http.Header, len(req.Trailer))
		passTrailer(out.Trailer, req.Trailer)
	}
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = &requestBody{body: req.Body, atEOF: func() { passTrailer(out.Trailer, req.Trailer) }}
	}
	_, named := req.Header["User-Agent"]
	if !named || len(guard.Decode) > 0 {
		if out.Header = req.Header.Clone(); out.Header == nil {
			out.Header = make(http.Header)
		}
	}
	if !named { // an active health check; a client that sent none has an empty one here
		out.Header.Set("User-Agent", healthCheckAgent)
	}
	if len(guard.Decode) > 0 {
		guard.Request(out.Header)
	}
	return out
}

// passTrailer copies what may be in a trailer (RFC 9110 section 6.5.1): no login, and nothing that concerns only the next hop.
func passTrailer(to, from http.Header) {
	for name, values := range from {
		if httpguts.ValidTrailerHeader(name) {
			to[name] = values
		}
	}
}

// requestBody closes a request's body only while no Read of it is under way: the one that reverse_proxy hands over must not
// be closed meanwhile, and HTTP/2 does so when the origin ends a request early.
type requestBody struct {
	body  io.ReadCloser
	atEOF func() // the trailer has come by then

	mu              sync.Mutex // guards what follows
	reading, closed bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	b.reading = true
	b.mu.Unlock()

	n, err := b.body.Read(p)
	if err == io.EOF {
		b.atEOF()
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if b.closed {
		b.body.Close()
	}
	return n, err
}

// Close leaves the closing to a Read under way. The server closes the body in any case when the request is over.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if b.reading {
		return nil
	}
	return b.body.Close()
}

// failed logs the failure of a request and returns what reverse_proxy is told of it.
func (t *Transport) failed(req *http.Request, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		if c := t.logger.Check(zap.DebugLevel, "request given up by its client"); c != nil {
			c.Write(zap.Error(err))
		}
		return err
	}
	t.logger.Warn("request failed",
		zap.String("code", e.Code),
		zap.String("stage", e.Stage),
		zap.String("hop", e.Hop),
		zap.String("target", e.Target),
		zap.Int("status", e.status()),
		zap.String("method", req.Method),
		zap.Error(err))
	return err
}
