package caddymodule

import (
	"context"
	"errors"
	"net/http"

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
	guard := t.guard
	out := t.outgoing(req, n, &guard)
	guard.OnError = func(err error) { t.bodyFailed(req, n, out, err) }
	dial := func(ctx context.Context, memory *pool.Memory) (pool.Conn, error) {
		return t.connect(ctx, n, memory)
	}
	res, err := t.pool.RoundTrip(out, t.identity(n), dial, nil)
	if err != nil {
		if failure := uploadFailure(out); failure != nil && req.Context().Err() == nil {
			return t.refuseUpload(req, n, failure), nil
		}
		return nil, t.failed(req, toError(req.Context(), n.addr, err))
	}
	res.Request = req
	if res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = upgraded(req, n, res.Body)
	}
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
