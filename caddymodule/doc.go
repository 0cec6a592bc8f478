// Package caddymodule is the Caddy module http.reverse_proxy.transport.tunnel, and the only room that knows Caddy.
//
// Typical use is by import, which registers the module; after that it is configured:
//
//	reverse_proxy https://api.example.com {
//		transport tunnel {
//			via socks5://127.0.0.1:1080
//		}
//	}
//
// A request's way through the files: roundtrip.go asks need.go what the request needs, gets a connection that meets it from
// package pool, where connect.go opens those that are missing, and guards the response's body; errors.go turns what went
// wrong into what reverse_proxy acts on. The config is checked and compiled in provision.go and way.go; caddyfile*.go
// write it.
//
// It does not open sockets, speak to proxies, do TLS or HTTP, or read bodies: that is what tunnel, tlsuser, h1c, h2c and body
// are for. It never chooses a way that the config does not name.
//
// # Codes
//
// A failed request is one warning in the log with a stable code:
//
//   - proxy_* and socks_*: the way. They are those of tunnel.Code, and for TLS to a proxy those of tlsuser.Code behind
//     "proxy_". origin_dial_* and origin_name_unresolved are the same for an origin that is reached directly.
//   - origin_*: TLS to the origin, as in tlsuser.Code behind "origin_"; after it origin_setup_failed (no HTTP),
//     origin_timeout, origin_not_processed (it provably did not take the request), origin_no_answer and origin_failed.
//   - placeholder_failed, proxy_protocol, upstream_network, no_upstream: what was configured cannot be used for this request.
//   - pool_wait: no connection came free, with max_conns_per_host.
//   - request_invalid, request_body_too_large (413), request_body_failed (400, 408): the client's request. For a body reverse_proxy
//     gets a response and not an error: it would count an error as the origin's.
//   - body_too_large: the response met max_body_bytes. body_decode_failed: it is not what its Content-Encoding says.
//     body_incomplete: the origin, or the way to it, broke off before its end. The response has begun by then, with few
//     exceptions, and the client's message is aborted.
//
// Where no status is named the client gets 502, or 504 if something took too long.
//
// PROXY protocol headers follow the specification of versions 1 and 2, Proxy-Status is RFC 9209.
package caddymodule
