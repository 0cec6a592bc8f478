package caddymodule

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/tlsuser"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

const mapperTarget = "api.example.com:443"

// exchangeError is what a connection reports of a request that got no response.
type exchangeError struct {
	err                                      error
	unprocessed, unanswered, invalid, http11 bool
}

func (e *exchangeError) Error() string        { return "round trip: " + e.err.Error() }
func (e *exchangeError) Unwrap() error        { return e.err }
func (e *exchangeError) Unprocessed() bool    { return e.unprocessed }
func (e *exchangeError) Unanswered() bool     { return e.unanswered }
func (e *exchangeError) Invalid() bool        { return e.invalid }
func (e *exchangeError) HTTP11Required() bool { return e.http11 }

// mapperHop is a hop whose login must not show in any message.
var mapperHop = tunnel.Hop{
	Name: "p1", Dialect: tunnel.HTTPS, Addr: "proxy.example.com:3128",
	Auth:   &tunnel.Auth{Username: bedUser, Password: bedPassword},
	Header: http.Header{"X-Key": {bedPassword}},
}

func mapped(t *testing.T, ctx context.Context, err error) *Error {
	t.Helper()
	got := toError(ctx, mapperTarget, err)
	e, ok := got.(*Error)
	if !ok {
		t.Fatalf("mapped to %T %v", got, got)
	}
	return e
}

// dialFailure is a tunnel that did not open.
func dialFailure(stage tunnel.Stage, code tunnel.Code, status int, reply byte, cause error) error {
	return &pool.Error{Stage: pool.StageDial, Err: &tunnel.Error{
		Stage: stage, Code: code, Hop: mapperHop.String(), Addr: mapperHop.Addr, Target: mapperTarget,
		Status: status, Reply: reply, Err: cause,
	}}
}

func handshakeFailure(code tlsuser.Code, cause error) error {
	return &pool.Error{Stage: pool.StageDial, Err: &tlsuser.Error{Name: "api.example.com", Code: code, Issuer: "Corp CA", Err: cause}}
}

func exchangeFailure(f exchangeError) error { return &pool.Error{Stage: pool.StageRoundTrip, Err: &f} }

// mapperCases are what can become of a request: code and stage of the error, the client's status, and whether it may
// be tried again whatever its method.
var mapperCases = []struct {
	name        string
	err         error
	code, stage string
	status      int
	retry       bool
}{
	{"proxy refuses connections", dialFailure(tunnel.StageDial, tunnel.ProxyDialRefused, 0, 0, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}),
		"proxy_dial_refused", "dial", 502, true},
	{"proxy cannot be reached in time", dialFailure(tunnel.StageDial, tunnel.ProxyDialTimeout, 0, 0, os.ErrDeadlineExceeded),
		"proxy_dial_timeout", "dial", 504, true},
	{"proxy cannot be reached", dialFailure(tunnel.StageDial, tunnel.ProxyDialFailed, 0, 0, syscall.EHOSTUNREACH),
		"proxy_dial_failed", "dial", 502, true},
	{"proxy has no address", dialFailure(tunnel.StageDial, tunnel.ProxyNameUnresolved, 0, 0, &net.DNSError{Err: "no such host", Name: "proxy.example.com", IsNotFound: true}),
		"proxy_name_unresolved", "dial", 502, true},
	{"proxy wants a login", dialFailure(tunnel.StageConnect, tunnel.ProxyAuthRequired, 407, 0, nil),
		"proxy_auth_required", "connect", 502, true},
	{"proxy refuses the login", dialFailure(tunnel.StageConnect, tunnel.ProxyAuthRefused, 407, 0, nil),
		"proxy_auth_refused", "connect", 502, true},
	{"CONNECT 403", dialFailure(tunnel.StageConnect, tunnel.ProxyConnectRefused, 403, 0, nil),
		"proxy_connect_refused", "connect", 502, true},
	{"CONNECT 502", dialFailure(tunnel.StageConnect, tunnel.ProxyConnectRefused, 502, 0, nil),
		"proxy_connect_refused", "connect", 502, true},
	{"CONNECT 503", dialFailure(tunnel.StageConnect, tunnel.ProxyConnectRefused, 503, 0, nil),
		"proxy_connect_refused", "connect", 502, true},
	{"CONNECT 504", dialFailure(tunnel.StageConnect, tunnel.ProxyConnectRefused, 504, 0, nil),
		"proxy_connect_refused", "connect", 504, true},
	{"SOCKS 1", dialFailure(tunnel.StageConnect, tunnel.SOCKSGeneralFailure, 0, 1, nil), "socks_general_failure", "connect", 502, true},
	{"SOCKS 2", dialFailure(tunnel.StageConnect, tunnel.SOCKSNotAllowed, 0, 2, nil), "socks_not_allowed", "connect", 502, true},
	{"SOCKS 3", dialFailure(tunnel.StageConnect, tunnel.SOCKSNetworkUnreachable, 0, 3, nil), "socks_network_unreachable", "connect", 502, true},
	{"SOCKS 4", dialFailure(tunnel.StageConnect, tunnel.SOCKSHostUnreachable, 0, 4, nil), "socks_host_unreachable", "connect", 502, true},
	{"SOCKS 5", dialFailure(tunnel.StageConnect, tunnel.SOCKSConnectionRefused, 0, 5, nil), "socks_connection_refused", "connect", 502, true},
	{"SOCKS 6", dialFailure(tunnel.StageConnect, tunnel.SOCKSTTLExpired, 0, 6, nil), "socks_ttl_expired", "connect", 504, true},
	{"SOCKS 7", dialFailure(tunnel.StageConnect, tunnel.SOCKSCommandUnsupported, 0, 7, nil), "socks_command_unsupported", "connect", 502, true},
	{"SOCKS 8", dialFailure(tunnel.StageConnect, tunnel.SOCKSAddressUnsupported, 0, 8, nil), "socks_address_unsupported", "connect", 502, true},
	{"SOCKS 9", dialFailure(tunnel.StageConnect, tunnel.SOCKSReplyUnknown, 0, 9, nil), "socks_reply_unknown", "connect", 502, true},
	{"proxy is silent", dialFailure(tunnel.StageConnect, tunnel.ProxyTunnelTimeout, 0, 0, context.DeadlineExceeded),
		"proxy_tunnel_timeout", "connect", 504, true},
	{"proxy closes", dialFailure(tunnel.StageConnect, tunnel.ProxyClosed, 0, 0, io.EOF), "proxy_closed", "connect", 502, true},
	{"proxy is not trusted", dialFailure(tunnel.StageTLS, "proxy_cert_untrusted", 0, 0, &tlsuser.Error{Code: tlsuser.CertUntrusted, Issuer: "Corp CA"}),
		"proxy_cert_untrusted", "tls", 502, true},
	{"proxy is silent in TLS", dialFailure(tunnel.StageTLS, "proxy_tls_timeout", 0, 0, &tlsuser.Error{Code: tlsuser.Timeout}),
		"proxy_tls_timeout", "tls", 504, true},
	{"target cannot be asked for", dialFailure(tunnel.StageConfig, tunnel.TargetInvalid, 0, 0, errors.New("zone")),
		"target_invalid", "config", 502, true},

	{"origin is not trusted", handshakeFailure(tlsuser.CertUntrusted, nil), "origin_cert_untrusted", "origin_tls", 502, true},
	{"origin's certificate expired", handshakeFailure(tlsuser.CertExpired, errors.New("expired")), "origin_cert_expired", "origin_tls", 502, true},
	{"origin has another name", handshakeFailure(tlsuser.CertNameMismatch, errors.New("not valid for it")), "origin_cert_name_mismatch", "origin_tls", 502, true},
	{"origin is silent in TLS", handshakeFailure(tlsuser.Timeout, context.DeadlineExceeded), "origin_tls_timeout", "origin_tls", 504, true},
	{"origin speaks no TLS", handshakeFailure(tlsuser.NotTLS, errors.New("first record does not look like TLS")), "origin_not_tls", "origin_tls", 502, true},
	{"HTTP cannot be started", &pool.Error{Stage: pool.StageDial, Err: &exchangeError{err: io.EOF}}, "origin_setup_failed", "dial", 502, true},

	{"response head takes too long", exchangeFailure(exchangeError{err: os.ErrDeadlineExceeded, unanswered: true}), "origin_timeout", "roundtrip", 504, false},
	{"cut before the answer", exchangeFailure(exchangeError{err: io.EOF, unanswered: true}), "origin_no_answer", "roundtrip", 502, false},
	{"cut within the answer's head", exchangeFailure(exchangeError{err: io.ErrUnexpectedEOF}), "origin_failed", "roundtrip", 502, false},
	{"GOAWAY, not processed", exchangeFailure(exchangeError{err: errors.New("GOAWAY"), unprocessed: true, unanswered: true}), "origin_not_processed", "roundtrip", 502, true},
	{"reset, HTTP/1.1 required", exchangeFailure(exchangeError{err: errors.New("HTTP_1_1_REQUIRED"), unprocessed: true, unanswered: true, http11: true}), "origin_http11_required", "roundtrip", 502, true},
	{"cannot be sent at all", exchangeFailure(exchangeError{err: errors.New("invalid field"), unprocessed: true, unanswered: true, invalid: true}), "request_invalid", "roundtrip", 502, false},
	{"origin wants a client certificate", exchangeFailure(exchangeError{err: &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, unanswered: true}),
		"origin_client_cert_refused", "origin_tls", 502, false},

	{"wait runs out of time", &pool.Error{Stage: pool.StageWait, Err: context.DeadlineExceeded}, "pool_wait", "wait", 504, true},
}

// TestMapper checks what reverse_proxy is told of each outcome, in the ways in which it asks.
func TestMapper(t *testing.T) {
	for _, tt := range mapperCases {
		t.Run(tt.name, func(t *testing.T) {
			e := mapped(t, context.Background(), tt.err)
			if e.Code != tt.code || e.Stage != tt.stage || e.Target != mapperTarget {
				t.Errorf("code %s, stage %s, target %s; want %s, %s", e.Code, e.Stage, e.Target, tt.code, tt.stage)
			}
			if got := clientStatus(e); got != tt.status || e.status() != tt.status {
				t.Errorf("the client gets %d, logged is %d; want %d", got, e.status(), tt.status)
			}
			if got := retryable(e); got != tt.retry {
				t.Errorf("retryable %v", got)
			}
			assertMessage(t, e)
		})
	}
}

// TestMapperBodyRead takes a byte of the request's body away before each failure: what is left of it must never be sent.
func TestMapperBodyRead(t *testing.T) {
	for _, tt := range mapperCases {
		t.Run(tt.name, func(t *testing.T) {
			read := *tt.err.(*pool.Error)
			read.BodyRead = true
			e := mapped(t, context.Background(), &read)
			if retryable(e) {
				t.Error("may be tried again with a part of the body")
			}
			if e.Code != tt.code || clientStatus(e) != tt.status {
				t.Errorf("code %s, status %d", e.Code, clientStatus(e))
			}
		})
	}
}

// TestMapperClientGone cancels each request: whatever was reported, the client went and nobody is to blame.
func TestMapperClientGone(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range mapperCases {
		err := toError(ctx, mapperTarget, tt.err)
		if err != context.Canceled { // reverse_proxy is to get it bare
			t.Errorf("%s: %T %v", tt.name, err, err)
		}
	}
	cause := errors.New("the server stops")
	caused, stop := context.WithCancelCause(context.Background())
	stop(cause)
	if err := toError(caused, mapperTarget, mapperCases[0].err); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled with a cause: %v", err)
	}
}

// TestMapperForeignCancel maps errors that speak of a cancellation while the client is still there.
func TestMapperForeignCancel(t *testing.T) {
	texts := errors.New("dial tcp 192.0.2.1:1: operation was canceled")
	for _, err := range []error{
		dialFailure(tunnel.StageConnect, tunnel.ProxyProtocolError, 0, 0, context.Canceled),
		dialFailure(tunnel.StageDial, tunnel.ProxyDialFailed, 0, 0, texts),
		exchangeFailure(exchangeError{err: context.Canceled, unanswered: true}),
		exchangeFailure(exchangeError{err: texts}),
	} {
		e := mapped(t, context.Background(), err)
		if errors.Is(e, context.Canceled) {
			t.Errorf("%v: looks like a client that went away", err)
		}
		if got := clientStatus(e); got != 502 {
			t.Errorf("%v: status %d", err, got)
		}
		assertMessage(t, e)
	}
}

// TestMapperDirect checks that no proxy is blamed where there is none.
func TestMapperDirect(t *testing.T) {
	e := mapped(t, context.Background(), &pool.Error{Stage: pool.StageDial, Err: &tunnel.Error{
		Stage: tunnel.StageDial, Code: tunnel.OriginDialRefused, Hop: string(tunnel.Direct), Addr: mapperTarget, Target: mapperTarget, Err: syscall.ECONNREFUSED,
	}})
	if e.Hop != "" || e.Code != "origin_dial_refused" || !retryable(e) {
		t.Errorf("%+v", e)
	}
	assertMessage(t, e)
}

// clientStatus is the status that reverse_proxy and Caddy's HTTP server make of err.
func clientStatus(err error) int {
	status := http.StatusBadGateway
	if ne, ok := err.(net.Error); ok && ne.Timeout() { // as reverse_proxy does
		status = http.StatusGatewayTimeout
	}
	if errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "operation was canceled") {
		status = 499
	}
	return caddyhttp.Error(status, err).StatusCode
}

// retryable asks as reverse_proxy does.
func retryable(err error) bool {
	var dial reverseproxy.DialError
	return errors.As(err, &dial)
}

// assertMessage checks that the text ends in its code, has it once, and holds no secret.
func assertMessage(t *testing.T, e *Error) {
	t.Helper()
	msg := e.Error()
	if !strings.HasSuffix(msg, " ["+e.Code+"]") || strings.Count(msg, "[") != 1 {
		t.Errorf("the code does not stand at the end alone: %s", msg)
	}
	if strings.Contains(msg, "operation was canceled") {
		t.Errorf("reads as if the client had gone: %s", msg)
	}
	if s := findSecret(msg); s != "" {
		t.Errorf("%q in %s", s, msg)
	}
	if strings.Contains(msg, "\n") {
		t.Errorf("more than a line: %q", msg)
	}
}
