package caddymodule

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddytunnel/caddytunnel/body"
)

// refuseBody answers for an origin whose response may not pass. It is a response and not an error, because the origin is not at
// fault: reverse_proxy neither tries again nor counts it as a failure. The origin's body is not read.
func (t *Transport) refuseBody(req *http.Request, n *need, res *http.Response, err error) (*http.Response, error) {
	res.Body.Close()
	var tooLarge *body.TooLargeError
	if !errors.As(err, &tooLarge) {
		return nil, t.failed(req, &Error{Code: "body_refused", Stage: "roundtrip", Target: n.addr, Err: err})
	}
	t.logCap(req, n, tooLarge)
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

// logCap logs that a response met the cap.
func (t *Transport) logCap(req *http.Request, n *need, e *body.TooLargeError) {
	t.logger.Warn("response body over max_body_bytes",
		zap.String("code", "body_too_large"),
		zap.String("stage", "body"),
		zap.String("hop", ""),
		zap.String("target", n.addr),
		zap.Int64("limit", e.Limit),
		zap.Int64("declared", e.Declared),
		zap.String("method", req.Method),
		zap.Error(e))
}
