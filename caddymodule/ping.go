package caddymodule

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddytunnel/caddytunnel/tunnel"
)

// Ping says how HTTP/2 connections are probed: those to origins, h2c included, and those to `h2` proxies. A peer that is
// silent is asked whether it lives; if it leaves that unanswered, its connection is closed, what is in flight on it fails
// with 504, and the next request opens another. HTTP/1.1 has no such question.
type Ping struct {
	// How long nothing may come from the peer before it is asked; at least `1s`. `-1` is off. Default: `30s`, and `5m` on
	// connections for gRPC: its servers end a connection that asks more often while its streams are silent. A time that is
	// written down holds for gRPC as well
	Idle caddy.Duration `json:"idle,omitempty"`

	// How long the answer may take. Default: `15s`
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// grpcPingIdle is what gRPC servers allow by default.
const grpcPingIdle = 5 * time.Minute

// idleFor is how long the peer of a connection for req may be silent; negative: for ever. p may be nil.
func (p *Ping) idleFor(req *http.Request) time.Duration {
	switch {
	case p != nil && p.Idle != 0:
		return time.Duration(p.Idle)
	case strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc"):
		return grpcPingIdle
	}
	return tunnel.DefaultPingIdle
}

func (p *Ping) timeout() time.Duration {
	if p == nil {
		return tunnel.DefaultPingTimeout
	}
	return cmp.Or(time.Duration(p.Timeout), tunnel.DefaultPingTimeout)
}

func (p *Ping) check() error {
	switch {
	case p == nil:
		return nil
	case p.Idle > 0 && p.Idle < caddy.Duration(time.Second), p.Idle < -1:
		return errors.New("ping: the idle time is at least 1s, or -1 (off)")
	case p.Timeout < 0:
		return errors.New("ping: the timeout must not be negative")
	case p.Idle < 0 && p.Timeout > 0:
		return errors.New("ping: a timeout has no meaning while it is off")
	}
	return nil
}

// ping parses `ping off | <idle> [<timeout>]`.
func (p *parser) ping(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	p.t.Ping = new(Ping)
	if d.Val() == "off" {
		p.t.Ping.Idle = -1
		return nil
	}
	var err error
	if p.t.Ping.Idle, err = positive(d); err != nil || !d.NextArg() {
		return err
	}
	p.t.Ping.Timeout, err = positive(d)
	return err
}

// positive parses a duration that is not zero, which would mean the default.
func positive(d *caddyfile.Dispenser) (caddy.Duration, error) {
	dur, err := parseDuration(d)
	if err == nil && dur <= 0 {
		err = d.Errf("ping '%s': a time is more than nothing; for no PING write 'ping off'", d.Val())
	}
	return dur, err
}
