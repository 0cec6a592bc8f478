// Package testbed serves origins of controlled sizes and forward proxies, good and misbehaving, in this process.
//
// The demo, the tests and the benches all measure against it, so what it sends is known to the byte
// and what reached it is on record.
//
// Typical use:
//
//	origin, err := testbed.NewOrigin(testbed.OriginConfig{})
//	if err != nil { ... }
//	defer origin.Close()
//	proxy, err := testbed.NewProxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5})
//	if err != nil { ... }
//	defer proxy.Close()
//	// ask for "https://" + origin.TLS + "/bytes/1048576?coding=br" through proxy.URL(), trusting origin.CA()
//	direct := origin.Direct(proxy) // connections that did not come out of the proxy
//
// The pages that [Origin] serves are listed at its index page and, as JSON, at /paths.
//
// What it is not: a server for anything but loopback. It has no limits of its own, an [Origin] answers whatever is
// asked of it, a [Proxy] connects to wherever it is told (see ProxyConfig.Allow), and both remember what they saw,
// passwords included.
//
// Protocols: HTTP/1.1 (RFC 9112), HTTP/2 (RFC 9113) over TLS and by prior knowledge, CONNECT (RFC 9110 section 9.3.6,
// RFC 9113 section 8.5), SOCKS5 (RFC 1928, RFC 1929), WebSocket (RFC 6455), early hints (RFC 8297), PROXY protocol
// versions 1 and 2.
package testbed
