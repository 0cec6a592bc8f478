package caddymodule

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

// tlsWords are the words of one leg's TLS: in the transport's block of the one to the origin, in a proxy's block of the
// one to that proxy.
var tlsWords map[string]func(*parser, *caddyfile.Dispenser) error

func init() {
	tlsWords = map[string]func(*parser, *caddyfile.Dispenser) error{
		"tls": func(p *parser, _ *caddyfile.Dispenser) error {
			p.tls()
			return nil
		},
		"tls_insecure_skip_verify": func(p *parser, _ *caddyfile.Dispenser) error {
			p.tls().InsecureSkipVerify = true
			return nil
		},
		"tls_client_auth":      (*parser).tlsClientAuth,
		"tls_trust_pool":       (*parser).tlsTrustPool,
		"tls_renegotiation":    (*parser).tlsRenegotiation,
		"tls_trusted_ca_certs": tlsArgs(func(t *TLS, args []string) { t.RootCAPEMFiles = args }),
		"tls_curves":           tlsArgs(func(t *TLS, args []string) { t.Curves = args }),
		"tls_except_ports":     tlsArgs(func(t *TLS, args []string) { t.ExceptPorts = args }),
		"tls_timeout": func(p *parser, d *caddyfile.Dispenser) error {
			if !d.NextArg() {
				return d.ArgErr()
			}
			dur, err := parseDuration(d)
			p.tls().HandshakeTimeout = dur
			return err
		},
		"tls_server_name": func(p *parser, d *caddyfile.Dispenser) error {
			if !d.NextArg() {
				return d.ArgErr()
			}
			p.tls().ServerName = d.Val()
			return nil
		},
	}
}

func (p *parser) tlsClientAuth(d *caddyfile.Dispenser) error {
	switch args := d.RemainingArgs(); len(args) {
	case 1:
		p.tls().ClientCertificateAutomate = args[0]
	case 2:
		p.tls().ClientCertificateFile, p.tls().ClientCertificateKeyFile = args[0], args[1]
	default:
		return d.ArgErr()
	}
	return nil
}

func (p *parser) tlsTrustPool(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	id := "tls.ca_pool.source." + name
	m, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return err
	}
	ca, ok := m.(caddytls.CA)
	if !ok {
		return d.Errf("module %s is not a trust pool", id)
	}
	if len(p.tls().RootCAPEMFiles) > 0 {
		return d.Err("tls_trust_pool and tls_trusted_ca_certs name the same: keep tls_trust_pool")
	}
	p.tls().CARaw = caddyconfig.JSONModuleObject(ca, "provider", name, nil)
	if !json.Valid(p.tls().CARaw) {
		return d.Errf("trust pool %s cannot be written as JSON", name)
	}
	return nil
}

func (p *parser) tlsRenegotiation(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	switch d.Val() {
	case "never", "once", "freely":
		p.tls().Renegotiation = d.Val()
		return nil
	}
	return d.Errf("tls_renegotiation '%s': allowed are never, once and freely", d.Val())
}

// tlsArgs makes a parser of a word with one argument or more.
func tlsArgs(set func(*TLS, []string)) func(*parser, *caddyfile.Dispenser) error {
	return func(p *parser, d *caddyfile.Dispenser) error {
		word := d.Val()
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		if word == "tls_trusted_ca_certs" && p.tls().CARaw != nil {
			return d.Err("tls_trust_pool and tls_trusted_ca_certs name the same: keep tls_trust_pool")
		}
		set(p.tls(), args)
		return nil
	}
}
