package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// Stage is how far a dial came.
type Stage string

const (
	StageConfig  Stage = "config"  // nothing was sent anywhere
	StageDial    Stage = "dial"    // a socket of this host
	StageTLS     Stage = "tls"     // TLS to a proxy
	StageConnect Stage = "connect" // the CONNECT or SOCKS exchange with a proxy
)

// Code is a stable word for why a dial failed. Codes of TLS to a proxy are those of package tlsuser behind "proxy_".
type Code string

const (
	NoWay         Code = "no_way"          // no hops, or hops that exclude each other
	HopInvalid    Code = "hop_invalid"     // a hop cannot be used as it is written
	TargetInvalid Code = "target_invalid"  // not a host and port that can be asked for
	TargetTooLong Code = "target_too_long" // a name of more than 255 bytes
	DialCancelled Code = "dial_cancelled"  // the ctx was cancelled, at any stage

	ProxyDialRefused    Code = "proxy_dial_refused"
	ProxyDialTimeout    Code = "proxy_dial_timeout"
	ProxyDialFailed     Code = "proxy_dial_failed"
	ProxyNameUnresolved Code = "proxy_name_unresolved"

	OriginDialRefused    Code = "origin_dial_refused"
	OriginDialTimeout    Code = "origin_dial_timeout"
	OriginDialFailed     Code = "origin_dial_failed"
	OriginNameUnresolved Code = "origin_name_unresolved"

	ProxyConnectRefused Code = "proxy_connect_refused" // a status that is not 2xx
	ProxyAuthRequired   Code = "proxy_auth_required"   // a login is wanted, none is configured
	ProxyAuthRefused    Code = "proxy_auth_refused"    // the login is refused
	ProxyClosed         Code = "proxy_closed"          // the connection ended before the answer did
	ProxyNotHTTP        Code = "proxy_not_http"
	ProxyNotSOCKS       Code = "proxy_not_socks"
	ProxyReplyTooLarge  Code = "proxy_reply_too_large"
	ProxyReplyMalformed Code = "proxy_reply_malformed"
	ProxyTunnelTimeout  Code = "proxy_tunnel_timeout" // no answer within Hop.Timeout or the ctx's deadline
	ProxyProtocolError  Code = "proxy_protocol_error" // HTTP/2

	SOCKSGeneralFailure     Code = "socks_general_failure"     // reply 1
	SOCKSNotAllowed         Code = "socks_not_allowed"         // reply 2
	SOCKSNetworkUnreachable Code = "socks_network_unreachable" // reply 3
	SOCKSHostUnreachable    Code = "socks_host_unreachable"    // reply 4
	SOCKSConnectionRefused  Code = "socks_connection_refused"  // reply 5
	SOCKSTTLExpired         Code = "socks_ttl_expired"         // reply 6
	SOCKSCommandUnsupported Code = "socks_command_unsupported" // reply 7
	SOCKSAddressUnsupported Code = "socks_address_unsupported" // reply 8
	SOCKSReplyUnknown       Code = "socks_reply_unknown"       // any other

	proxyTLS = "proxy_" // in front of a code of tlsuser
)

// Error is why a dial failed. Its text and its fields hold nothing secret.
type Error struct {
	Stage  Stage
	Code   Code
	Hop    string // Hop.String of the hop that failed; empty if no one did
	Addr   string // what was being reached: the hop itself, or in StageConnect what it was asked for
	Target string // where the dial was to end
	Status int    // of the answer to CONNECT, if there was one
	Reply  byte   // of the SOCKS server, if it refused
	Err    error  // the cause; may be nil
}

// Unwrap returns the cause. errors.Is finds context.Canceled where the ctx was cancelled.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a limit of time ended the dial.
func (e *Error) Timeout() bool {
	switch e.Code {
	case ProxyDialTimeout, OriginDialTimeout, ProxyTunnelTimeout, proxyTLS + Code(tlsuser.Timeout):
		return true
	}
	return false
}

// failure is what a stage reports; the dial adds where it happened.
type failure struct {
	code   Code
	status int
	reply  byte
	err    error
}

func (f *failure) Error() string { return string(f.code) }
func (f *failure) Unwrap() error { return f.err }

func fail(code Code, err error) error { return &failure{code: code, err: err} }

// dialCode classifies an error of a socket of this host.
func dialCode(err error, direct bool) Code {
	pick := func(proxy, origin Code) Code {
		if direct {
			return origin
		}
		return proxy
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return DialCancelled
	case errors.As(err, &dns) && !dns.IsTimeout:
		return pick(ProxyNameUnresolved, OriginNameUnresolved)
	case isTimeout(err):
		return pick(ProxyDialTimeout, OriginDialTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return pick(ProxyDialRefused, OriginDialRefused)
	}
	return pick(ProxyDialFailed, OriginDialFailed)
}

// connectCode classifies an error of the exchange with a proxy.
func connectCode(err error, otherwise Code) Code {
	switch {
	case errors.Is(err, context.Canceled):
		return DialCancelled
	case isTimeout(err):
		return ProxyTunnelTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ProxyClosed
	}
	return otherwise
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}
