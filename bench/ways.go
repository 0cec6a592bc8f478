package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/caddytunnel/caddytunnel/tlsuser"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

// A way leads from this process to the origin.
type way struct {
	name  string
	hop   tunnel.Hop
	proxy *url.URL // the same for net/http; nil: none
}

func (p *peerProcess) ways() []way {
	return []way{
		{"direct", tunnel.Hop{Dialect: tunnel.Direct}, nil},
		{"CONNECT", tunnel.Hop{Dialect: tunnel.HTTP, Addr: p.Connect}, &url.URL{Scheme: "http", Host: p.Connect}},
		{"SOCKS5", tunnel.Hop{Dialect: tunnel.SOCKS5, Addr: p.SOCKS5}, &url.URL{Scheme: "socks5", Host: p.SOCKS5}},
	}
}

// A path is a way with what is counted on it.
type path struct {
	way
	plain, tls string // host:port of the origin
	roots      *x509.CertPool
	pull       int // most bytes asked of the socket in one read; 0: the default
	io         ioCounts
}

func newPath(w way, p *peerProcess) *path {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(p.CA))
	return &path{way: w, plain: p.Plain, tls: p.TLS, roots: roots}
}

// socket is what net/http dials with, and the tunnels: sockets whose reads and writes are counted.
func (p *path) socket(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return nil, errors.New("not a TCP connection")
	}
	return &countedConn{tcp, &p.io}, nil
}

// dial connects to addr by the product's dialer.
func (p *path) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := tunnel.Dialer{Hops: []tunnel.Hop{p.hop}, PullBytes: p.pull, Dial: p.socket}
	return d.DialContext(ctx, "tcp", addr)
}

// bare connects to addr and returns the socket beneath the product's conn. Origins do not speak first, so nothing is
// buffered above it.
func (p *path) bare(ctx context.Context, addr string) (net.Conn, error) {
	var socket net.Conn
	d := tunnel.Dialer{Hops: []tunnel.Hop{p.hop}, Dial: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		socket, err = p.socket(ctx, network, addr)
		return socket, err
	}}
	_, err := d.DialContext(ctx, "tcp", addr)
	return socket, err
}

// client does TLS by the product's package.
func (p *path) client(ctx context.Context, conn net.Conn, proto string, sessions tls.ClientSessionCache) (net.Conn, error) {
	return tlsuser.Client(ctx, conn, &tlsuser.Config{
		ServerName: originName, RootCAs: p.roots, NextProtos: []string{proto}, Sessions: sessions,
	})
}

// secure dials the origin's TLS port and does TLS, both by the product's packages.
func (p *path) secure(ctx context.Context, proto string, sessions tls.ClientSessionCache) (net.Conn, error) {
	conn, err := p.dial(ctx, p.tls)
	if err != nil {
		return nil, err
	}
	return p.client(ctx, conn, proto, sessions)
}

// transport is net/http's, which goes the same way.
func (p *path) transport(proto string, decode bool) *http.Transport {
	t := &http.Transport{
		DialContext: p.socket,
		TLSClientConfig: &tls.Config{
			ServerName: originName, RootCAs: p.roots, ClientSessionCache: tls.NewLRUClientSessionCache(4), MinVersion: tls.VersionTLS12,
		},
		DisableCompression: !decode,
		Protocols:          new(http.Protocols),
	}
	t.Protocols.SetHTTP1(proto == "http/1.1")
	t.Protocols.SetHTTP2(proto == "h2")
	if p.proxy != nil {
		t.Proxy = http.ProxyURL(p.proxy)
	}
	return t
}

// ioCounts are what happened at sockets.
type ioCounts struct {
	reads, writes, bytes atomic.Int64 // bytes: read
}

// A countedConn counts the reads and writes of a socket.
type countedConn struct {
	*net.TCPConn
	n *ioCounts
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.n.reads.Add(1)
	c.n.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.n.writes.Add(1)
	return c.TCPConn.Write(p)
}
