// Package tunnel makes a net.Conn to a host and port that leads through proxies.
//
// Typical use:
//
//	d := &tunnel.Dialer{Hops: []tunnel.Hop{
//		{Dialect: tunnel.HTTP, Addr: "proxy.corp.example:3128", Auth: &tunnel.Auth{Username: "u", Password: "p"}},
//		{Dialect: tunnel.SOCKS5, Addr: "exit.example.net:1080"},
//	}}
//	conn, err := d.DialContext(ctx, "tcp", "api.example.com:443")
//
// Names go to the proxy as they are: nothing but the address of the first hop is looked up on this host. No failure
// leads to another way than the one configured, least of all to a direct connection. A byte that the far end sent
// behind the proxy's reply is the first byte of the conn. Errors are [*Error], with a stable code.
//
// The package does not choose between proxies, try one again, speak TLS to the far end, or look at the environment.
//
// HTTP proxies are asked by CONNECT after RFC 9110 section 9.3.6 (RFC 9112 on the wire, RFC 9113 section 8.5 over
// HTTP/2) with Basic credentials (RFC 7617), SOCKS5 proxies after RFC 1928 and RFC 1929.
package tunnel
