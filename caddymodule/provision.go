package caddymodule

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddytunnel/caddytunnel/body"
	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

// The HTTP versions as they are configured.
const (
	version11  = "1.1"
	version2   = "2"
	versionH2C = "h2c"
)

const (
	minPullBytes = 1 << 10
	maxPullBytes = 4 << 20

	// The admin API and the Caddyfile adapter pass numbers through float64, which rounds beyond this.
	maxExactNumber = 1 << 53
)

// Provision checks the config and builds what serves it. It connects to nothing and looks no name up.
func (t *Transport) Provision(ctx caddy.Context) error {
	if err := t.provision(ctx); err != nil {
		return redact(err, t.configWords())
	}
	return nil
}

func (t *Transport) provision(ctx caddy.Context) error {
	t.logger = ctx.Logger()
	if err := t.checkOptions(); err != nil {
		return err
	}
	var err error
	if t.way, err = t.provisionWay(ctx); err != nil {
		return err
	}
	if t.TLS != nil {
		if t.origin, err = t.TLS.provision(ctx); err != nil {
			return fmt.Errorf("TLS to the origin: %w", err)
		}
		t.origin.config.Timeout = orDefault(t.origin.config.Timeout, defaultTLSTimeout)
	}
	dialer, err := t.provisionSockets()
	if err != nil {
		return err
	}
	t.dial = dialer.DialContext
	if err := t.checkHandler(ctx); err != nil {
		return err
	}
	t.guard = body.Guard{MaxBytes: t.MaxBodyBytes}
	for _, c := range t.Decode {
		t.guard.Decode = append(t.guard.Decode, body.Coding(c))
	}
	if t.PullBytes == 0 {
		t.PullBytes = t.ReadBufferSize
	}
	key := make([]byte, sha256.Size)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	t.macs = &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
	t.pool = pool.New(t.poolOptions())
	t.carriers = &tunnel.Carriers{MaxIdle: t.MaxIdentities, PingTimeout: t.Ping.timeout()}
	if t.Ping != nil {
		t.carriers.PingIdle = time.Duration(t.Ping.Idle)
	}
	if t.KeepAlive != nil {
		t.carriers.IdleTimeout = time.Duration(t.KeepAlive.IdleConnTimeout)
	}
	for _, h := range t.way.hops {
		if h.login.plain {
			t.logger.Warn("a proxy's password stands in the config as plain text: {env.NAME} and {file./path} keep it out",
				zap.String("proxy", h.name))
		}
	}
	return nil
}

func (t *Transport) poolOptions() pool.Options {
	o := pool.Options{
		MaxConnsPerHost: t.MaxConnsPerHost,
		MaxIdentities:   t.MaxIdentities,
		ReplayBytes:     t.ReplayBytes,
	}
	if k := t.KeepAlive; k != nil {
		o.MaxIdle = k.MaxIdleConns
		o.MaxIdlePerHost = k.MaxIdleConnsPerHost
		o.IdleTimeout = time.Duration(k.IdleConnTimeout)
		o.DisableKeepAlives = k.Enabled != nil && !*k.Enabled
	}
	return o
}

// checkOptions checks what stands in the config by itself. Each error says what is allowed.
func (t *Transport) checkOptions() error {
	for _, v := range t.Versions {
		if err := checkVersion(v); err != nil {
			return err
		}
	}
	if t.TLS != nil && slices.Equal(t.Versions, []string{versionH2C}) && len(t.TLS.ExceptPorts) == 0 {
		return errors.New("versions h2c is HTTP/2 without TLS, but TLS is on: write versions 2")
	}
	if t.Compression != nil && *t.Compression {
		return errors.New("compression is not an option of this transport: the client's Accept-Encoding passes untouched; " +
			"to ask the origin for codings and undo them, write decode")
	}
	switch t.ProxyProtocol {
	case "", "v1", "v2":
	default:
		return fmt.Errorf("proxy_protocol %q: allowed are v1 and v2", t.ProxyProtocol)
	}
	for i, c := range t.Decode {
		if !slices.Contains(allowedCodings, c) {
			return fmt.Errorf("decode %q: allowed are %s", c, strings.Join(allowedCodings, ", "))
		}
		if slices.Contains(t.Decode[:i], c) {
			return fmt.Errorf("decode names %s twice", c)
		}
	}
	if t.PullBytes != 0 && t.ReadBufferSize != 0 {
		return errors.New("pull_bytes and read_buffer_size are two names of one thing: keep one")
	}
	for name, n := range map[string]int{"pull_bytes": t.PullBytes, "read_buffer_size": t.ReadBufferSize} {
		if n != 0 && (n < minPullBytes || n > maxPullBytes) {
			return fmt.Errorf("%s %d: allowed is 1 KiB to 4 MiB (%d to %d)", name, n, minPullBytes, maxPullBytes)
		}
	}
	if t.MaxBodyBytes < -1 || t.MaxBodyBytes > maxExactNumber {
		return fmt.Errorf("max_body_bytes %d: allowed is -1 (unlimited), 0 (the default) or a number up to 2^53", t.MaxBodyBytes)
	}
	if t.ReplayBytes < -1 || t.ReplayBytes > maxReplayBytes {
		return fmt.Errorf("replay_bytes %d: allowed is -1 (off), 0 (the default) or up to 64 MiB: it is kept in memory", t.ReplayBytes)
	}
	if err := t.Ping.check(); err != nil {
		return err
	}
	for name, n := range map[string]int64{"write_buffer_size": int64(t.WriteBufferSize), "max_response_header_size": t.MaxResponseHeaderSize} {
		if n > maxBuffer {
			return fmt.Errorf("%s %d: allowed is up to 1 GiB", name, n)
		}
	}
	for name, n := range map[string]int64{
		"max_conns_per_host": int64(t.MaxConnsPerHost), "max_identities": int64(t.MaxIdentities),
		"max_response_header_size": t.MaxResponseHeaderSize, "write_buffer_size": int64(t.WriteBufferSize),
		"dial_timeout": int64(t.DialTimeout), "tunnel_timeout": int64(t.TunnelTimeout), "response_header_timeout": int64(t.ResponseHeaderTimeout),
		"expect_continue_timeout": int64(t.ExpectContinueTimeout), "read_timeout": int64(t.ReadTimeout), "write_timeout": int64(t.WriteTimeout),
	} {
		if n < 0 {
			return fmt.Errorf("%s must not be negative", name)
		}
	}
	return nil
}

// maxBuffer bounds what one connection may hold in memory.
const maxBuffer = 1 << 30

// maxReplayBytes bounds what one request may hold in memory for its replay.
const maxReplayBytes = 64 << 20

// allowedCodings are the content codings that decode takes.
var allowedCodings = []string{"gzip", "deflate", "br", "zstd"}

func checkVersion(v string) error {
	switch v {
	case version11, version2, versionH2C:
		return nil
	case "3":
		return errors.New("versions 3 is refused: HTTP/3 runs over QUIC and cannot be carried through a tunnel; allowed are 1.1, 2 and h2c")
	}
	return fmt.Errorf("versions %q: allowed are 1.1, 2 and h2c", v)
}

// checkHandler refuses what the route around the transport asks for and this way cannot give.
func (t *Transport) checkHandler(ctx caddy.Context) error {
	var handler *reverseproxy.Handler
	for _, m := range ctx.Modules() {
		if h, ok := m.(*reverseproxy.Handler); ok {
			handler = h
		}
	}
	if handler == nil {
		return nil
	}
	if handler.HealthChecks != nil && handler.HealthChecks.Active != nil {
		key, ok := t.way.perRequest()
		if !ok && t.origin != nil {
			key, ok = t.origin.serverName.perRequest()
		}
		if ok {
			return fmt.Errorf("active health checks come from no request, but {%s} needs one: take the active checks or the "+
				"placeholder out (this version has no health_via)", key)
		}
	}
	if len(t.way.hops) == 0 {
		return nil
	}
	for _, u := range handler.Upstreams {
		if addr, err := caddy.ParseNetworkAddress(u.Dial); err == nil && (addr.IsUnixNetwork() || addr.IsFdNetwork()) {
			return fmt.Errorf("upstream %s is a socket of this host and cannot be reached through a proxy: write 'via direct'", u.Dial)
		}
	}
	return nil
}

// Cleanup closes idle connections. Requests in flight complete, and their connections close behind them.
func (t *Transport) Cleanup() error {
	if t.pool != nil {
		t.pool.Close()
	}
	if t.carriers != nil {
		t.carriers.Close()
	}
	return nil
}
