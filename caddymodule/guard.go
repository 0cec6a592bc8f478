package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddytunnel/caddytunnel/body"
)

// bodyFailed logs the failure of a response's body after its head has been passed on. If the request's own body failed while it
// was sent, that is the reason.
func (t *Transport) bodyFailed(req *http.Request, n *need, out *http.Request, err error) {
	if failure := uploadFailure(out); failure != nil && req.Context().Err() == nil {
		_ = t.failed(req, uploadError(n, failure)) // the response has begun
		return
	}
	t.logBody(req, n, err)
}

// refuseBody answers for an origin whose response may not pass, or whose body failed before its head was passed on. What is
// over the cap gets a response and not an error, because the origin is not at fault: reverse_proxy neither tries again
// nor counts it as a failure.
func (t *Transport) refuseBody(req *http.Request, n *need, res *http.Response, err error) (*http.Response, error) {
	res.Body.Close()
	if _, ok := errors.AsType[*body.TooLargeError](err); !ok {
		return nil, t.failed(req, bodyError(req, n, err))
	}
	t.logBody(req, n, err)
	return &http.Response{
		Status:     "502 Bad Gateway",
		StatusCode: http.StatusBadGateway,
		Proto:      res.Proto,
		ProtoMajor: res.ProtoMajor,
		ProtoMinor: res.ProtoMinor,
		Header:     http.Header{"Proxy-Status": {"caddy; error=http_response_body_size"}},
		Body:       http.NoBody,
		Request:    req,
	}, nil
}

// bodyError is the failure of a response's body. A request whose client went away gives back the bare cancellation.
func bodyError(req *http.Request, n *need, err error) error {
	if errors.Is(req.Context().Err(), context.Canceled) {
		return context.Canceled
	}
	e := &Error{Code: string(body.CodeOf(err)), Stage: "body", Target: n.addr, Err: err, timeout: isTimeout(err)}
	if body.CodeOf(err) == body.CodeIncomplete {
		e.Err = fmt.Errorf("the response of the origin %s broke off: %w", n.addr, err)
	}
	return e
}

// logBody logs that a response's body did not come to its end, unless its client has gone.
func (t *Transport) logBody(req *http.Request, n *need, err error) {
	e, ok := errors.AsType[*Error](bodyError(req, n, err))
	if !ok {
		return
	}
	fields := []zapcore.Field{
		zap.String("code", e.Code),
		zap.String("stage", e.Stage),
		zap.String("hop", e.Hop),
		zap.String("target", e.Target),
		zap.String("method", req.Method),
		zap.Error(e),
	}
	if over, ok := errors.AsType[*body.TooLargeError](err); ok {
		fields = append(fields, zap.Int64("limit", over.Limit), zap.Int64("declared", over.Declared))
	}
	t.logger.Warn("response body failed", fields...)
}
