package tlsuser

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
)

// Code is a stable word for why a handshake failed.
type Code string

const (
	CertUntrusted     Code = "cert_untrusted"      // signed by an authority that is not trusted
	CertNameMismatch  Code = "cert_name_mismatch"  // does not carry the name asked for
	CertExpired       Code = "cert_expired"        // expired, or not valid yet
	CertInvalid       Code = "cert_invalid"        // not fit for a server, or its chain is broken
	ClientCertRefused Code = "client_cert_refused" // the peer wants a client certificate, or another one
	NotTLS            Code = "not_tls"             // the peer answered with something else than TLS
	Timeout           Code = "tls_timeout"         // not done within Config.Timeout or the ctx's deadline
	Cancelled         Code = "tls_cancelled"       // the ctx was cancelled
	Closed            Code = "tls_closed"          // the peer closed the connection
	Failed            Code = "tls_failed"          // anything else: an alert, no version or cipher in common
	BadConfig         Code = "tls_config"          // the Config cannot be used; nothing was sent
)

// Error is why a handshake failed. Its text holds nothing secret.
type Error struct {
	Name   string // what the certificate was verified against; empty if nothing was
	Code   Code
	Issuer string // who signed the certificate that was refused, where one was
	Err    error
}

// Error says what failed, and ends in the code.
func (e *Error) Error() string {
	peer := "TLS"
	if e.Name != "" {
		peer = "TLS with " + e.Name
	}
	return fmt.Sprintf("%s: %s [%s]", peer, e.Reason(), e.Code)
}

// Reason says what went wrong without naming the peer, for a message that does so itself.
func (e *Error) Reason() string {
	switch e.Code {
	case CertUntrusted:
		return fmt.Sprintf("issuer %q is not trusted", clip(e.Issuer))
	case NotTLS:
		return "the peer does not speak TLS"
	case Timeout:
		return "timed out"
	case Closed:
		return "the peer closed the connection during the handshake"
	}
	var refused *tls.CertificateVerificationError
	switch {
	case e.Err == nil:
		return "failed"
	case errors.As(e.Err, &refused):
		return clip(refused.Err.Error())
	}
	return clip(e.Err.Error())
}

// Unwrap returns what crypto/tls, the connection or the ctx reported.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the handshake ran out of time.
func (e *Error) Timeout() bool { return e.Code == Timeout }

// CodeOf classifies an error of a [tls.Conn]. It serves after the handshake too: with TLS 1.3 a peer refuses a
// client certificate only in answer to the first bytes sent.
func CodeOf(err error) Code {
	if already, ok := errors.AsType[*Error](err); ok {
		return already.Code
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	}
	if code, ok := certificateCode(err); ok {
		return code
	}
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &header):
		return NotTLS
	case refusesClientCert(err):
		return ClientCertRefused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Closed
	}
	return Failed
}

func certificateCode(err error) (Code, bool) {
	var (
		unknown  x509.UnknownAuthorityError
		noRoots  x509.SystemRootsError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		other    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &unknown), errors.As(err, &noRoots):
		return CertUntrusted, true
	case errors.As(err, &hostname):
		return CertNameMismatch, true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return CertExpired, true
	case errors.As(err, &other):
		return CertInvalid, true
	}
	return "", false
}

// Alerts of RFC 8446 section 6 that a server sends about the client's certificate, and one that may be about it.
const (
	handshakeFailure       tls.AlertError = 40
	badCertificate         tls.AlertError = 42
	unsupportedCertificate tls.AlertError = 43
	certificateRevoked     tls.AlertError = 44
	certificateExpired     tls.AlertError = 45
	certificateUnknown     tls.AlertError = 46
	unknownCA              tls.AlertError = 48
	accessDenied           tls.AlertError = 49
	certificateRequired    tls.AlertError = 116
)

func refusesClientCert(err error) bool {
	return isAlert(err, badCertificate, unsupportedCertificate, certificateRevoked, certificateExpired,
		certificateUnknown, unknownCA, accessDenied, certificateRequired)
}

// isAlert reports whether the peer ended TLS by one of these alerts. crypto/tls does not export the type of what it
// reports then, but its text is that of AlertError.
func isAlert(err error, alerts ...tls.AlertError) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return false
	}
	return slices.ContainsFunc(alerts, func(alert tls.AlertError) bool { return op.Err.Error() == alert.Error() })
}

func newError(name string, err error) *Error {
	return &Error{Name: name, Code: CodeOf(err), Issuer: issuer(err), Err: err}
}

// issuer names who signed the certificate that err is about: the one whose authority is unknown, else the peer's own.
func issuer(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		failed  *tls.CertificateVerificationError
		cert    *x509.Certificate
	)
	switch {
	case errors.As(err, &unknown) && unknown.Cert != nil:
		cert = unknown.Cert
	case errors.As(err, &failed) && len(failed.UnverifiedCertificates) > 0:
		cert = failed.UnverifiedCertificates[0]
	default:
		return ""
	}
	if cert.Issuer.CommonName != "" {
		return cert.Issuer.CommonName
	}
	return cert.Issuer.String()
}

// clip bounds text that the peer may have chosen.
func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
