// Package caddytunnel carries the upstream requests of Caddy's reverse_proxy through proxies.
//
// Importing it registers the module http.reverse_proxy.transport.tunnel and the command "caddy tunnel", so that
// "xcaddy build --with github.com/caddytunnel/caddytunnel" is all that a build needs. There is no other code here;
// this is the map of the rooms, in the order of one request's way:
//
//   - caddymodule: the only room that knows Caddy: config, Caddyfile, provisioning, error mapping, logs, commands
//   - pool: HTTP connections by identity: reuse, limits, waiters, replay
//   - tunnel: a net.Conn to host:port through hops (CONNECT, CONNECT over TLS or HTTP/2, SOCKS5)
//   - tlsuser: client TLS over any net.Conn: names, trust, client certificates, read-ahead
//   - h1c, h2c: one HTTP/1.1, one HTTP/2 client connection over a given net.Conn
//   - body: response bodies: decoding and caps
//
// Beside them stand testbed (origins and proxies in process, good and misbehaving, which the demo, the tests and the benches
// share), bench (what a request costs) and cmd/caddy.
package caddytunnel

import (
	_ "embed"

	"github.com/caddytunnel/caddytunnel/caddymodule"
)

//go:embed Caddyfile.example
var example string

func init() { caddymodule.RegisterCommand(example) }
