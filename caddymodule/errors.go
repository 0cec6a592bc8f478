package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/tlsuser"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

// Error is a request's failure as reverse_proxy sees it: what failed and where, and whether the request may be tried
// again. It is the one place where the errors of the rooms below meet status codes.
type Error struct {
	Code   string // a stable word, e.g. proxy_dial_refused
	Stage  string // config, wait, dial, tls, connect, origin_tls, roundtrip
	Hop    string // the proxy that is to blame; empty: none
	Target string // the origin's host:port
	Err    error

	beforeOrigin bool // no byte of the request reached the origin, and none of its body is lost
	timeout      bool
	code         int // the status, where it is not 502 or 504
}

// Error says what failed. It holds no credential, and the code stands at its end in brackets.
func (e *Error) Error() string {
	// reverse_proxy takes any error with these words for a client that went away.
	msg := strings.ReplaceAll(e.Err.Error(), "operation was canceled", "operation was given up")
	if strings.HasSuffix(msg, "["+e.Code+"]") {
		return msg
	}
	return msg + " [" + e.Code + "]"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether something took too long; reverse_proxy answers 504 then.
func (e *Error) Timeout() bool { return e.timeout }

// Temporary is part of net.Error, which is how reverse_proxy asks for Timeout.
func (e *Error) Temporary() bool { return e.timeout }

// As makes the error a reverseproxy.DialError, which may be tried again whatever the method, where nothing of the request
// reached the origin; and a caddyhttp.HandlerError where it has a status of its own.
func (e *Error) As(target any) bool {
	switch target := target.(type) {
	case *reverseproxy.DialError:
		if !e.beforeOrigin {
			return false
		}
		*target = reverseproxy.NewDialError(e)
		return true
	case *caddyhttp.HandlerError:
		if e.code == 0 {
			return false
		}
		*target = caddyhttp.HandlerError{StatusCode: e.code, Err: e}
		return true
	}
	return false
}

// status is the status code the client gets unless the config handles the error.
func (e *Error) status() int {
	switch {
	case e.code != 0:
		return e.code
	case e.timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// configError is a failure that lies in the config or in what its placeholders expanded to: another attempt fails the same.
func configError(code, target string, err error) *Error {
	e := &Error{Code: code, Stage: "config", Target: target,
		Err: fmt.Errorf("%w; nothing was sent to %s", err, orWord(target, "any origin"))}
	if he, ok := errors.AsType[*hopError](err); ok {
		e.Hop = he.hop
	}
	return e
}

// A hopError is what keeps one proxy's settings from being expanded for a request.
type hopError struct {
	hop string
	err error
}

func (e *hopError) Error() string { return "proxy " + e.hop + ": " + e.err.Error() }

func (e *hopError) Unwrap() error { return e.err }

// toError maps what the pool returned for a request to target. A request whose client went away gives back the bare
// cancellation, which reverse_proxy counts against nobody.
func toError(ctx context.Context, target string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	e := &Error{Target: target, Err: err, timeout: isTimeout(err)}
	var pe *pool.Error
	bodyRead := errors.As(err, &pe) && pe.BodyRead
	if pe != nil {
		e.Stage = string(pe.Stage)
		e.Err = pe.Err
	}
	e.beforeOrigin = !bodyRead && (e.Stage == "dial" || e.Stage == "wait" || unprocessed(err))

	var te *tunnel.Error
	var oe *tlsuser.Error
	switch {
	case errors.As(err, &te):
		e.Code, e.Stage, e.Err = string(te.Code), string(te.Stage), te
		if te.Hop != string(tunnel.Direct) {
			e.Hop = te.Hop
		}
		e.timeout = e.timeout || te.Status == http.StatusGatewayTimeout || te.Code == tunnel.SOCKSTTLExpired
	case errors.As(err, &oe):
		e.Code, e.Stage, e.Err = "origin_"+string(oe.Code), "origin_tls", originTLS(target, oe)
	case invalid(err):
		e.Code, e.beforeOrigin = "request_invalid", false
		e.Err = fmt.Errorf("the request cannot be sent to %s: %w", target, e.Err)
	case tlsuser.CodeOf(err) == tlsuser.ClientCertRefused:
		// With TLS 1.3 the refusal comes after our side of the handshake is done.
		e.Code, e.Stage = "origin_"+string(tlsuser.ClientCertRefused), "origin_tls"
		e.Err = originTLS(target, &tlsuser.Error{Code: tlsuser.ClientCertRefused, Err: e.Err})
	case e.Stage == "wait":
		e.Code = "pool_wait"
	case e.Stage == "dial":
		e.Code = "origin_setup_failed"
		e.Err = fmt.Errorf("the tunnel to %s is up, but HTTP could not be started in it: %w", target, e.Err)
	case http11Required(err):
		e.Code = "origin_http11_required"
		e.Err = fmt.Errorf("the origin %s wants this request over HTTP/1.1, and it could not be sent again that way: "+
			"'versions' must have 1.1, and 'replay_bytes' hold the whole body: %w", target, e.Err)
	case e.timeout:
		e.Code = "origin_timeout"
		e.Err = fmt.Errorf("the origin %s took too long: %w", target, e.Err)
	case unprocessed(err):
		e.Code = "origin_not_processed"
		e.Err = fmt.Errorf("the origin %s did not take the request: %w", target, e.Err)
	case unanswered(err):
		e.Code = "origin_no_answer"
		e.Err = fmt.Errorf("the origin %s closed the connection without an answer: %w", target, e.Err)
	default:
		e.Code = "origin_failed"
		e.Err = fmt.Errorf("the exchange with the origin %s failed: %w", target, e.Err)
	}
	if errors.Is(e.Err, context.Canceled) {
		// What was cancelled is not this request. To reverse_proxy it would look as if its client had gone.
		e.Err = errors.New(e.Err.Error())
	}
	return e
}

// originTLS says what went wrong with TLS to the origin, and where to mend it.
func originTLS(target string, oe *tlsuser.Error) error {
	hint := "the request was not sent"
	switch oe.Code {
	case tlsuser.CertUntrusted:
		hint = "put 'tls_trust_pool file <ca.pem>' in the transport's block; inside a proxy's block it means the proxy"
	case tlsuser.CertNameMismatch:
		hint = "put 'tls_server_name <name>' in the transport's block; inside a proxy's block it means the proxy"
	case tlsuser.ClientCertRefused:
		hint = "put 'tls_client_auth <cert.pem> <key.pem>' in the transport's block; inside a proxy's block it means the proxy"
	case tlsuser.NotTLS:
		hint = "if the origin is one without TLS, write http:// in front of the upstream"
	}
	return &detailed{fmt.Sprintf("TLS to the origin %s: %s: %s", target, oe.Reason(), hint), oe}
}

// detailed is an error with a text of its own in place of its cause's.
type detailed struct {
	text string
	err  error
}

func (d *detailed) Error() string { return d.text }
func (d *detailed) Unwrap() error { return d.err }

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// unprocessed reports whether the origin provably did not process the request.
func unprocessed(err error) bool {
	var u interface{ Unprocessed() bool }
	return errors.As(err, &u) && u.Unprocessed()
}

// http11Required reports whether the origin refused the request because of its HTTP version.
func http11Required(err error) bool {
	var r interface{ HTTP11Required() bool }
	return errors.As(err, &r) && r.HTTP11Required()
}

// invalid reports whether the request cannot be sent on any connection.
func invalid(err error) bool {
	var i interface{ Invalid() bool }
	return errors.As(err, &i) && i.Invalid()
}

// unanswered reports whether no byte of the response arrived.
func unanswered(err error) bool {
	var u interface{ Unanswered() bool }
	return errors.As(err, &u) && u.Unanswered()
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}
