package tlsuser

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// DefaultTimeout bounds a handshake whose Config names no other limit.
const DefaultTimeout = 10 * time.Second

// Config says what one leg of TLS sends, presents and trusts. It is only read, and may be shared by concurrent
// handshakes. Its zero value verifies against the system's roots but names nobody, so a name must be set unless
// InsecureSkipVerify is.
type Config struct {
	// ServerName is the name sent to the peer (SNI; an IP address is never sent) and, unless VerifyName is set,
	// the name its certificate must carry.
	ServerName string

	// VerifyName is the DNS name or IP address that the peer's certificate must carry. Empty: ServerName.
	VerifyName string

	// RootCAs are the authorities trusted. Nil: the system's.
	RootCAs *x509.CertPool

	// Certificates are what this side can present when the peer asks for a client certificate.
	Certificates []tls.Certificate

	// GetClientCertificate optionally chooses the client certificate; if set, Certificates is not used.
	GetClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

	// InsecureSkipVerify accepts any certificate for any name, VerifyName included.
	InsecureSkipVerify bool

	// CurvePreferences are the key exchanges offered. Empty: crypto/tls's own.
	CurvePreferences []tls.CurveID

	// Renegotiation says whether a TLS 1.2 peer may renegotiate. Zero: never.
	Renegotiation tls.RenegotiationSupport

	// NextProtos is the ALPN offer. Empty: ALPN is not used.
	NextProtos []string

	// Timeout bounds the handshake. Zero: DefaultTimeout. Negative: only the caller's ctx bounds it.
	Timeout time.Duration

	// Sessions holds tickets for resumption. Nil: no resumption. The peer is not verified again by chain when a
	// session is resumed under ServerName alone, so a cache must be scoped to one identity and one leg.
	Sessions tls.ClientSessionCache
}

// WriteIdentity writes everything that shapes a connection, framed so that two different configs never write the
// same bytes: RootCAs and GetClientCertificate as the address of the value, so a config must stay reachable for as
// long as its identity is in use. Timeout and Sessions shape no connection and are left out. Errors of w are
// ignored: it is meant for a hash. A nil config has an identity of its own.
func (c *Config) WriteIdentity(w io.Writer) {
	if c == nil {
		writeField(w, nil)
		return
	}
	writeField(w, []byte("tls"))
	writeField(w, []byte(c.ServerName))
	writeField(w, []byte(c.VerifyName))
	writeNumber(w, uint64(reflect.ValueOf(c.RootCAs).Pointer()))
	// A func value points to its closure, which reflect does not tell: two closures of one function must differ.
	writeNumber(w, uint64(*(*uintptr)(unsafe.Pointer(&c.GetClientCertificate)))) //nolint:gosec // read, never dereferenced
	writeNumber(w, uint64(len(c.Certificates)))
	for i := range c.Certificates {
		writeCertificate(w, &c.Certificates[i])
	}
	skip := uint64(0)
	if c.InsecureSkipVerify {
		skip = 1
	}
	writeNumber(w, skip)
	writeNumber(w, uint64(len(c.CurvePreferences)))
	for _, curve := range c.CurvePreferences {
		writeNumber(w, uint64(curve))
	}
	writeNumber(w, uint64(c.Renegotiation))
	writeNumber(w, uint64(len(c.NextProtos)))
	for _, proto := range c.NextProtos {
		writeField(w, []byte(proto))
	}
}

func writeCertificate(w io.Writer, cert *tls.Certificate) {
	writeNumber(w, uint64(len(cert.Certificate)))
	for _, der := range cert.Certificate {
		sum := sha256.Sum256(der)
		writeField(w, sum[:])
	}
	writeNumber(w, uint64(len(cert.SupportedSignatureAlgorithms)))
	for _, alg := range cert.SupportedSignatureAlgorithms {
		writeNumber(w, uint64(alg))
	}
}

func writeField(w io.Writer, b []byte) {
	writeNumber(w, uint64(len(b)))
	_, _ = w.Write(b)
}

func writeNumber(w io.Writer, n uint64) {
	_, _ = w.Write(binary.BigEndian.AppendUint64(nil, n))
}

// verifyName is the name that the certificate must carry. The zone of an IPv6 address says which of this host's
// links the peer is on, which no certificate can carry.
func (c *Config) verifyName() string {
	name := c.VerifyName
	if name == "" {
		name = c.ServerName
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip, err := netip.ParseAddr(bare); err == nil {
		return ip.WithZone("").String()
	}
	return name
}

// limit is ctx with the handshake's own bound.
func (c *Config) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := c.Timeout
	switch {
	case timeout < 0:
		return context.WithCancel(ctx)
	case timeout == 0:
		timeout = DefaultTimeout
	}
	return context.WithTimeout(ctx, timeout)
}
