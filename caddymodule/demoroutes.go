package caddymodule

import (
	_ "embed"
	htmltemplate "html/template"
	"net/http"
)

// A demoRoute is a route of the example, what it shows, and what must come of it.
type demoRoute struct {
	Path   string // on the demo's site
	Way    string // what the request goes through
	About  string
	proxy  string // the dialect of the proxy that must have carried it; empty: none
	bytes  int64  // of the body, which must be the page of that length; 0: no body expected
	status int
	proto  string // spoken to the origin
}

// demoRoutes are the links of the page, and what --check runs.
func demoRoutes() []demoRoute {
	const mib = 1 << 20
	return []demoRoute{
		{"/http/bytes/1MiB", "HTTP CONNECT", "1 MiB through a plain HTTP proxy, TLS to the origin inside the tunnel", "http", mib, 200, "HTTP/2.0"},
		{"/https/bytes/1MiB", "CONNECT over TLS", "the proxy wants TLS and a password; its trust is apart from the origin's", "https", mib, 200, "HTTP/2.0"},
		{"/socks5/bytes/1MiB", "SOCKS5", "user and password, the name resolved by the proxy", "socks5", mib, 200, "HTTP/2.0"},
		{"/h2/bytes/1MiB", "CONNECT over HTTP/2", "many tunnels on one connection to the proxy", "h2", mib, 200, "HTTP/2.0"},
		{"/chain/bytes/1MiB", "HTTP CONNECT, then SOCKS5", "two hops", "socks5", mib, 200, "HTTP/2.0"},
		{"/h2c/bytes/1MiB", "HTTP CONNECT", "HTTP/2 without TLS to the origin, tunnelled as well", "http", mib, 200, "HTTP/2.0"},
		{"/capped/bytes/64KiB", "HTTP CONNECT", "exactly the cap of 64 KiB passes", "http", 64 << 10, 200, "HTTP/2.0"},
		{"/capped/bytes/65537", "HTTP CONNECT", "one byte more is a clean 502", "http", 0, 502, "HTTP/2.0"},
		{"/decoded/bytes/1MiB?coding=zstd", "SOCKS5", "zstd from the origin, undone on the way", "socks5", mib, 200, "HTTP/2.0"},
		{"/decoded/bytes/1MiB?coding=gzip&framing=chunked", "SOCKS5", "gzip from the origin, undone on the way", "socks5", mib, 200, "HTTP/2.0"},
	}
}

//go:embed demo.html
var demoHTML string

func demoPage(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page := htmltemplate.Must(htmltemplate.New("demo").Parse(demoHTML))
	if err := page.Execute(w, demoRoutes()); err != nil {
		panic(http.ErrAbortHandler) // the client went away
	}
}
