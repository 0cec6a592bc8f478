package caddymodule

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddytunnel/caddytunnel/body"
	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

func init() { caddy.RegisterModule(Transport{}) }

// Transport carries a route's upstream requests through proxies: HTTP CONNECT, CONNECT over TLS, CONNECT over HTTP/2
// and SOCKS5, one behind the other if wanted. TLS to the origin happens inside the tunnel, so the proxy sees a name
// and a port and nothing else. HTTP/1.1, HTTP/2 and h2c are spoken to the origin.
//
// The way is always written down. A request that cannot go that way fails; no error, placeholder, environment
// variable, health check, retry or upgrade makes it go another. Every option of the `http` transport keeps its name
// and meaning here, apart from `forward_proxy_url` (write `via`), `compression` (bytes pass untouched; see `decode`)
// and HTTP/3 (a tunnel runs over TCP).
type Transport struct {
	// The way to the origin: the hops, nearest first. Required. To go without a proxy, and to say so, give the
	// one hop `{"direct": true}`.
	Via []*Hop `json:"via,omitempty"`

	// Origins that are reached directly, not through the hops: host names (`internal.example`), suffixes
	// (`.internal.example` or `*.internal.example`: every name below it, not the name itself), IP addresses, CIDR ranges, and the word
	// `private_ranges`. A `:port` behind a name or an address confines the rule to that port. Rules are compared with
	// the upstream's address as configured; no name is looked up for it.
	Bypass []string `json:"bypass,omitempty"`

	// What users of the `http` transport have: `{"from": "url", "url": "…"}` is the same as one hop in `via`,
	// `{"from": "none"}` the same as the hop `{"direct": true}`. Not together with `via`.
	NetworkProxy *NetworkProxy `json:"network_proxy,omitempty"`

	// Refused, with the `via` to write instead. It is here so that the error can say so.
	ForwardProxyURL string `json:"forward_proxy_url,omitempty"`

	// TLS to the origin, inside the tunnel. An empty object is enough for sensible defaults. The leg to a proxy has
	// TLS settings of its own, in its hop; neither has any effect on the other.
	TLS *TLS `json:"tls,omitempty"`

	// The HTTP versions to speak to the origin: "1.1", "2" (over TLS, by ALPN; falls back to 1.1 where the origin does not
	// speak it) and "h2c" (HTTP/2 without TLS, by prior knowledge). Default: `["1.1", "2"]`
	Versions []string `json:"versions,omitempty"`

	// HTTP keep-alive towards the origin. Default: enabled; a connection idles for `2m` at most and at most 32 idle for one
	// identity (`max_idle_conns_per_host`, see `max_identities`), without a limit over all; TCP probes are sent every `30s`
	KeepAlive *reverseproxy.KeepAlive `json:"keep_alive,omitempty"`

	// How HTTP/2 connections are probed, so that one whose packets go nowhere is found and replaced. Default: after `30s` of
	// silence, and closed without an answer in `15s`
	Ping *Ping `json:"ping,omitempty"`

	// Most connections at a time to one origin address. Requests beyond it wait, in order of arrival, as long as their
	// client does. Default: `0`, no limit
	MaxConnsPerHost int `json:"max_conns_per_host,omitempty"`

	// Most identities kept at a time. An identity is everything that shapes a connection: hops with their credentials,
	// the origin, its TLS names, the client's address where PROXY protocol is on. Connections and TLS sessions are
	// shared within one only. Beyond the limit the least recently used idle one is closed. As many connections to `h2`
	// proxies may idle. Default: `1000`
	MaxIdentities int `json:"max_identities,omitempty"`

	// The PROXY protocol version to send, `v1` or `v2`: the first bytes inside the tunnel, before TLS. Default: off
	ProxyProtocol string `json:"proxy_protocol,omitempty"`

	// The DNS servers for this host's own lookups: names of proxies, and of origins that are reached directly. The
	// names of tunnelled origins are never looked up here. Default: the system's
	Resolver *reverseproxy.UpstreamResolver `json:"resolver,omitempty"`

	// The local address this host's own connections are made from. Default: the system chooses
	LocalAddress string `json:"local_address,omitempty"`

	// How long to wait for a TCP or Unix socket connection of this host. Default: `3s`
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`

	// The time for the whole handshake with each proxy, TLS to it included, where the proxy has none of its own.
	// Default: `15s`
	TunnelTimeout caddy.Duration `json:"tunnel_timeout,omitempty"`

	// How long to wait before spawning an RFC 6555 Fast Fallback connection. A negative value disables this.
	// Default: `300ms`
	FallbackDelay caddy.Duration `json:"dial_fallback_delay,omitempty"`

	// How long to wait for the head of the response once the request has been written. Default: no limit
	ResponseHeaderTimeout caddy.Duration `json:"response_header_timeout,omitempty"`

	// How long a request with `Expect: 100-continue` waits for the origin's word before its body is sent.
	// Default: the body is sent at once
	ExpectContinueTimeout caddy.Duration `json:"expect_continue_timeout,omitempty"`

	// The most bytes to read of a response's head. Default: `10485760` (10 MiB)
	MaxResponseHeaderSize int64 `json:"max_response_header_size,omitempty"`

	// The most bytes of a request's body to send in one write over HTTP/1.1, at least 512. Default: `32768` (32 KiB)
	WriteBufferSize int `json:"write_buffer_size,omitempty"`

	// Another name of `pull_bytes`, as the `http` transport has it. Not together with it.
	ReadBufferSize int `json:"read_buffer_size,omitempty"`

	// The longest each read from the origin may take while a message is in flight. Default: no limit
	ReadTimeout caddy.Duration `json:"read_timeout,omitempty"`

	// The longest each write to the origin may take while a message is in flight. Default: no limit
	WriteTimeout caddy.Duration `json:"write_timeout,omitempty"`

	// Only `false` is allowed, and it is what happens anyway: no Accept-Encoding is added. See `decode`.
	Compression *bool `json:"compression,omitempty"`

	// The content codings the transport offers to the origin and undoes: `gzip`, `deflate`, `br`, `zstd`. Clients then get
	// the body as it is without coding. Default: none, bytes pass untouched
	Decode []string `json:"decode,omitempty"`

	// The most bytes of a response body: decoded bytes where the transport decodes, bytes on the wire otherwise. A
	// response that declares more is answered with 502; one that turns out to be more is cut off such that
	// the client sees an aborted message. `-1` is no limit. Default: `33554432` (32 MiB) for bodies that the transport
	// decodes, and no limit for others, event streams and gRPC
	MaxBodyBytes int64 `json:"max_body_bytes,omitempty"`

	// The most bytes asked of a socket in one read, from 1024 to 4194304 (1 KiB to 4 MiB). A read returns as soon as
	// any byte is there. Default: `65536` (64 KiB)
	PullBytes int `json:"pull_bytes,omitempty"`

	// Request bodies are remembered up to this many bytes while they are sent, so that a request that the origin has
	// provably not processed can be sent again. `-1` is off. Default: `65536` (64 KiB)
	ReplayBytes int64 `json:"replay_bytes,omitempty"`

	logger   *zap.Logger
	way      *way
	origin   *tlsTemplate
	guard    body.Guard
	pool     *pool.Pool
	carriers *tunnel.Carriers
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	macs     *sync.Pool // of hash.Hash, which makes identities
}

// NetworkProxy is the part of the `http` transport's network proxy modules that means one fixed way.
type NetworkProxy struct {
	// Where the way comes from: `url` or `none`.
	From string `json:"from"`

	// The proxy's URL, where `from` is `url`.
	URL string `json:"url,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.tunnel",
		New: func() caddy.Module { return new(Transport) },
	}
}

// TLSEnabled reports whether TLS is spoken to the origin.
func (t *Transport) TLSEnabled() bool { return t.TLS != nil }

// EnableTLS turns TLS to the origin on, as an https:// upstream asks for.
func (t *Transport) EnableTLS(base *reverseproxy.TLSConfig) error {
	t.TLS = &TLS{TLSConfig: *base}
	return nil
}

// EnableH2C makes HTTP/2 without TLS the version to speak, as an h2c:// upstream asks for.
func (t *Transport) EnableH2C() error {
	t.Versions = []string{versionH2C, version2}
	return nil
}

// RequestHeaderOps makes the upstream's address the default Host where TLS is spoken to it, as the `http` transport does.
func (t *Transport) RequestHeaderOps() *headers.HeaderOps {
	if t.TLS == nil {
		return nil
	}
	return &headers.HeaderOps{
		Set: map[string][]string{"Host": {"{http.reverse_proxy.upstream.hostport}"}},
	}
}

// OverrideHealthCheckScheme makes active health checks speak TLS where requests to that port do. With health_upstream port is not
// the one that is checked.
func (t *Transport) OverrideHealthCheckScheme(base *url.URL, port string) {
	if t.useTLS(cmp.Or(base.Port(), port)) {
		base.Scheme = "https"
	}
}

// ProxyProtocolEnabled reports whether a PROXY protocol header is sent.
func (t *Transport) ProxyProtocolEnabled() bool { return t.ProxyProtocol != "" }

// useTLS reports whether TLS is spoken to the origin's port.
func (t *Transport) useTLS(port string) bool {
	return t.TLS != nil && !slices.Contains(t.TLS.ExceptPorts, port)
}

// Interface guards. Without EnableH2C, an h2c:// upstream would silently be spoken to in HTTP/1.1.
var (
	_ caddy.Provisioner                                = (*Transport)(nil)
	_ caddy.CleanerUpper                               = (*Transport)(nil)
	_ caddyfile.Unmarshaler                            = (*Transport)(nil)
	_ http.RoundTripper                                = (*Transport)(nil)
	_ reverseproxy.TLSTransport                        = (*Transport)(nil)
	_ reverseproxy.H2CTransport                        = (*Transport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport           = (*Transport)(nil)
	_ reverseproxy.HealthCheckSchemeOverriderTransport = (*Transport)(nil)
	_ reverseproxy.ProxyProtocolTransport              = (*Transport)(nil)
)
