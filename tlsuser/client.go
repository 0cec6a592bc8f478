package tlsuser

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// Client does the client's handshake over conn and returns the connection it made, ready for use.
//
// ctx and cfg.Timeout bound the handshake only: neither has an effect on the connection returned. On success conn
// belongs to that connection and is closed with it; on any error Client has closed conn, and the error is an
// [*Error]. cfg is copied. Client may be called concurrently, on different conns.
//
// The connection's Read returns io.EOF only after the peer has closed TLS. If the conn beneath ends without that, the
// error is another one, for which errors.Is finds io.ErrUnexpectedEOF (RFC 8446 section 6.1, RFC 9112 section 9.8).
func Client(ctx context.Context, conn net.Conn, cfg *Config) (*tls.Conn, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	name := cfg.verifyName()
	if name == "" && !cfg.InsecureSkipVerify {
		_ = conn.Close()
		return nil, &Error{Code: BadConfig, Err: errors.New("no name to verify the certificate against")}
	}
	ctx, cancel := cfg.limit(ctx)
	defer cancel()

	conf := cfg.clientConfig()
	asked := noteCertificateRequest(conf)
	beneath := &guarded{Conn: conn}
	tconn := tls.Client(beneath, conf)
	if err := tconn.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		e := newError(name, err)
		if *asked && isAlert(err, handshakeFailure) {
			e.Code = ClientCertRefused // TLS 1.2 has no alert that says so
		}
		return nil, e
	}
	beneath.up = true
	return tconn, nil
}

// clientConfig makes what crypto/tls is asked to do.
func (c *Config) clientConfig() *tls.Config {
	conf := &tls.Config{
		ServerName:           c.ServerName,
		RootCAs:              c.RootCAs,
		Certificates:         c.Certificates,
		GetClientCertificate: c.GetClientCertificate,
		InsecureSkipVerify:   c.InsecureSkipVerify, //nolint:gosec // as configured
		CurvePreferences:     c.CurvePreferences,
		Renegotiation:        c.Renegotiation,
		NextProtos:           c.NextProtos,
		ClientSessionCache:   c.Sessions,
		MinVersion:           tls.VersionTLS12,
	}
	// crypto/tls verifies the name it sends. For another name its verification is replaced as a whole, in the one
	// hook that also runs when a session is resumed.
	if name := c.verifyName(); name != c.ServerName && !c.InsecureSkipVerify {
		conf.InsecureSkipVerify = true
		conf.VerifyConnection = func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, name, c.RootCAs)
		}
	}
	return conf
}

// noteCertificateRequest makes conf remember whether the peer asked for a client certificate. What is presented is
// the same as without it.
func noteCertificateRequest(conf *tls.Config) *bool {
	asked := new(bool)
	choose, certs := conf.GetClientCertificate, conf.Certificates
	conf.GetClientCertificate = func(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		*asked = true
		if choose != nil {
			return choose(req)
		}
		for i := range certs {
			if req.SupportsCertificate(&certs[i]) == nil {
				return &certs[i], nil
			}
		}
		return new(tls.Certificate), nil
	}
	return asked
}

// verify does what crypto/tls does with a server's certificates, for a name of our own.
func verify(certs []*x509.Certificate, name string, roots *x509.CertPool) error {
	if len(certs) == 0 {
		return errors.New("the peer presented no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, cert := range certs[1:] {
		intermediates.AddCert(cert)
	}
	_, err := certs[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: intermediates})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}
	}
	return nil
}
