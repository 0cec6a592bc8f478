package caddymodule

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/dustin/go-humanize"
)

// words are the words of the block, apart from tls and tls_*.
var words map[string]func(*parser, *caddyfile.Dispenser) error

func init() {
	words = map[string]func(*parser, *caddyfile.Dispenser) error{
		"via":           (*parser).via,
		"then":          (*parser).then,
		"network_proxy": (*parser).networkProxy,
		"bypass":        (*parser).bypass,

		"decode":         (*parser).decode,
		"max_body_bytes": (*parser).maxBodyBytes,
		"pull_bytes":     intSize(func(t *Transport, n int) { t.PullBytes = n }),
		"replay_bytes":   (*parser).replayBytes,
		"max_identities": count(func(p *parser, n int) { p.t.MaxIdentities = n }),

		"read_buffer":         intSize(func(t *Transport, n int) { t.ReadBufferSize = n }),
		"write_buffer":        intSize(func(t *Transport, n int) { t.WriteBufferSize = n }),
		"max_response_header": intSize(func(t *Transport, n int) { t.MaxResponseHeaderSize = int64(n) }),

		"dial_timeout":            duration(func(p *parser, d caddy.Duration) { p.t.DialTimeout = d }),
		"tunnel_timeout":          duration(func(p *parser, d caddy.Duration) { p.t.TunnelTimeout = d }),
		"dial_fallback_delay":     duration(func(p *parser, d caddy.Duration) { p.t.FallbackDelay = d }),
		"response_header_timeout": duration(func(p *parser, d caddy.Duration) { p.t.ResponseHeaderTimeout = d }),
		"expect_continue_timeout": duration(func(p *parser, d caddy.Duration) { p.t.ExpectContinueTimeout = d }),
		"read_timeout":            duration(func(p *parser, d caddy.Duration) { p.t.ReadTimeout = d }),
		"write_timeout":           duration(func(p *parser, d caddy.Duration) { p.t.WriteTimeout = d }),

		"resolvers":                     (*parser).resolvers,
		"local_address":                 (*parser).localAddress,
		"proxy_protocol":                (*parser).proxyProtocol,
		"versions":                      (*parser).versions,
		"compression":                   (*parser).compression,
		"ping":                          (*parser).ping,
		"max_conns_per_host":            count(func(p *parser, n int) { p.t.MaxConnsPerHost = n }),
		"keepalive":                     (*parser).keepalive,
		"keepalive_interval":            duration(func(p *parser, d caddy.Duration) { p.keepAlive().ProbeInterval = d }),
		"keepalive_idle_conns":          count(func(p *parser, n int) { p.keepAlive().MaxIdleConns = n }),
		"keepalive_idle_conns_per_host": count(func(p *parser, n int) { p.keepAlive().MaxIdleConnsPerHost = n }),
	}
}

func (p *parser) bypass(d *caddyfile.Dispenser) error {
	p.t.Bypass = d.RemainingArgs()
	if len(p.t.Bypass) == 0 {
		return d.ArgErr()
	}
	if _, err := parseBypass(p.t.Bypass); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (p *parser) decode(d *caddyfile.Dispenser) error {
	if p.t.Decode = d.RemainingArgs(); len(p.t.Decode) == 0 {
		p.t.Decode = allowedCodings
	}
	return nil
}

func (p *parser) maxBodyBytes(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if d.Val() == "unlimited" {
		p.t.MaxBodyBytes = -1
		return nil
	}
	n, err := size(d)
	if err == nil && n == 0 {
		return d.Err("max_body_bytes 0 would let no body pass: write 'unlimited' for no limit, or leave it out for the default")
	}
	p.t.MaxBodyBytes = n
	return err
}

func (p *parser) replayBytes(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	n := int64(-1)
	if d.Val() != "off" && d.Val() != "0" {
		var err error
		if n, err = size(d); err != nil {
			return err
		}
	}
	p.t.ReplayBytes = n
	return nil
}

func (p *parser) resolvers(d *caddyfile.Dispenser) error {
	p.t.Resolver = &reverseproxy.UpstreamResolver{Addresses: d.RemainingArgs()}
	if len(p.t.Resolver.Addresses) == 0 {
		return d.Err("resolvers needs at least one address")
	}
	return nil
}

func (p *parser) localAddress(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	p.t.LocalAddress = d.Val()
	return nil
}

func (p *parser) proxyProtocol(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	p.t.ProxyProtocol = d.Val()
	return nil
}

func (p *parser) versions(d *caddyfile.Dispenser) error {
	if p.t.Versions = d.RemainingArgs(); len(p.t.Versions) == 0 {
		return d.ArgErr()
	}
	for _, v := range p.t.Versions {
		if err := checkVersion(v); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

func (p *parser) compression(d *caddyfile.Dispenser) error {
	on := !d.NextArg() || d.Val() != "off"
	p.t.Compression = &on
	return nil
}

func (p *parser) keepalive(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if d.Val() == "off" {
		p.keepAlive().Enabled = new(bool)
		return nil
	}
	dur, err := parseDuration(d)
	p.keepAlive().IdleConnTimeout = dur
	return err
}

// duration makes a parser of a word with one duration.
func duration(set func(*parser, caddy.Duration)) func(*parser, *caddyfile.Dispenser) error {
	return func(p *parser, d *caddyfile.Dispenser) error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		dur, err := parseDuration(d)
		if err == nil {
			set(p, dur)
		}
		return err
	}
}

// count makes a parser of a word with one number.
func count(set func(*parser, int)) func(*parser, *caddyfile.Dispenser) error {
	return func(p *parser, d *caddyfile.Dispenser) error {
		word := d.Val()
		if !d.NextArg() {
			return d.ArgErr()
		}
		n, err := strconv.Atoi(d.Val())
		if err != nil || n < 0 {
			return d.Errf("%s '%s' is not a number", word, d.Val())
		}
		set(p, n)
		return nil
	}
}

// intSize makes a parser of a word with one size that fits an int on every machine.
func intSize(set func(*Transport, int)) func(*parser, *caddyfile.Dispenser) error {
	return func(p *parser, d *caddyfile.Dispenser) error {
		word := d.Val()
		if !d.NextArg() {
			return d.ArgErr()
		}
		n, err := size(d)
		if err != nil {
			return err
		}
		if n < 1 || n > maxBuffer {
			return d.Errf("%s '%s' is out of range", word, d.Val())
		}
		set(p.t, int(n))
		return nil
	}
}

func parseDuration(d *caddyfile.Dispenser) (caddy.Duration, error) {
	dur, err := caddy.ParseDuration(d.Val())
	if err != nil {
		return 0, d.Errf("'%s' is not a duration, such as 10s or 2m: %v", d.Val(), err)
	}
	return caddy.Duration(dur), nil
}

func size(d *caddyfile.Dispenser) (int64, error) {
	n, err := humanize.ParseBytes(d.Val())
	if err != nil || n > maxExactNumber {
		return 0, d.Errf("'%s' is not a size, such as 64KiB or 10MiB", d.Val())
	}
	return int64(n), nil
}
