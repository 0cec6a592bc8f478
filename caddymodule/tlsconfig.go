package caddymodule

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// TLS is the TLS configuration of one leg: of the one to the origin, or of the one to a proxy. The server name may
// hold placeholders; the expanded name is sent and verified.
type TLS struct {
	reverseproxy.TLSConfig
}

// defaultTLSTimeout bounds the TLS handshake with the origin where the config does not.
const defaultTLSTimeout = 10 * time.Second

// A tlsTemplate is a leg's TLS settings with the server name still to be expanded.
type tlsTemplate struct {
	config     tlsuser.Config
	serverName template
}

// provision loads the trust pool and the client certificate. A nil TLS is all defaults.
func (t *TLS) provision(ctx caddy.Context) (*tlsTemplate, error) {
	if t == nil {
		return &tlsTemplate{}, nil
	}
	if t.HandshakeTimeout < 0 {
		return nil, errors.New("handshake_timeout must not be negative")
	}
	std, err := t.MakeTLSClientConfig(ctx)
	if err != nil {
		return nil, err
	}
	tt := &tlsTemplate{serverName: parseTemplate(t.ServerName)}
	if std != nil {
		tt.config = tlsuser.Config{
			RootCAs:              std.RootCAs,
			Certificates:         std.Certificates,
			GetClientCertificate: std.GetClientCertificate,
			InsecureSkipVerify:   std.InsecureSkipVerify,
			CurvePreferences:     std.CurvePreferences,
			Renegotiation:        std.Renegotiation,
		}
	}
	tt.config.Timeout = time.Duration(t.HandshakeTimeout)
	return tt, nil
}

// expand returns the settings for one request; name is the server name where none is configured.
func (tt *tlsTemplate) expand(repl *caddy.Replacer, name string) (*tlsuser.Config, error) {
	cfg := tt.config
	cfg.ServerName = name
	if !tt.serverName.empty() {
		var err error
		if cfg.ServerName, err = tt.serverName.expand(repl); err != nil {
			return nil, fmt.Errorf("tls_server_name: %w", err)
		}
	}
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		return nil, errors.New("there is no name to verify the certificate against")
	}
	return &cfg, nil
}
