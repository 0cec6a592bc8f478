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
// PROXY protocol headers follow the specification of versions 1 and 2, Proxy-Status is RFC 9209.
package caddymodule
