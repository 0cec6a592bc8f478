package testbed

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/proxy"
)

// dialects lists the proxies that every test of tunnels runs over.
func dialects() []ProxyConfig {
	return []ProxyConfig{{Dialect: HTTP}, {Dialect: HTTPS}, {Dialect: H2}, {Dialect: SOCKS5}}
}

// overEach runs f over every dialect, on TCP and on a Unix socket.
func overEach(t *testing.T, f func(t *testing.T, config ProxyConfig)) {
	for _, config := range dialects() {
		for _, network := range []string{"tcp", "unix"} {
			config.Network = network
			t.Run(string(config.Dialect)+"_"+network, func(t *testing.T) { f(t, config) })
		}
	}
}

// testTunnel is a tunnel as the tests use it.
type testTunnel struct {
	net.Conn // nil for HTTP/2
	io.Reader
	io.Writer
	closeWrite func() error
}

// refusal is an answer that opens no tunnel.
type refusal struct {
	status int
	header http.Header
	body   string
}

func (r *refusal) Error() string { return fmt.Sprintf("refused with %d: %s", r.status, r.body) }

// tunnelClient keeps the HTTP/2 connection between tunnels.
type tunnelClient struct {
	p       *Proxy
	dialect Dialect
	h2      *http.Transport
}

func newTunnelClient(t *testing.T, p *Proxy) *tunnelClient { return newTunnelClientAs(t, p, p.Dialect) }

func newTunnelClientAs(t *testing.T, p *Proxy, dialect Dialect) *tunnelClient {
	c := &tunnelClient{p: p, dialect: dialect}
	if dialect == H2 {
		c.h2 = &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: p.CA(), ServerName: "proxy.test"},
			Protocols:       new(http.Protocols),
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, p.Network, p.Addr)
			},
		}
		c.h2.Protocols.SetHTTP2(true)
		t.Cleanup(c.h2.CloseIdleConnections)
	}
	return c
}

// open asks for a tunnel. login is "user:password", or empty.
func (c *tunnelClient) open(t *testing.T, target, login string) (*testTunnel, error) {
	t.Helper()
	user, password, _ := strings.Cut(login, ":")
	header := http.Header{}
	if login != "" {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(user, password)
		header.Set("Proxy-Authorization", r.Header.Get("Authorization"))
	}
	if c.h2 != nil {
		return c.openH2(t, target, header)
	}
	conn, err := connect(t, c.p.Network, c.p.Addr)
	if err != nil {
		return nil, err
	}
	switch c.dialect {
	case SOCKS5:
		var auth *proxy.Auth
		if login != "" {
			auth = &proxy.Auth{User: user, Password: password}
		}
		d, err := proxy.SOCKS5("tcp", "x", auth, forward{conn})
		if err != nil {
			return nil, err
		}
		if _, err := d.Dial("tcp", target); err != nil {
			return nil, err
		}
		return &testTunnel{conn, conn, conn, func() error { return closeWrite(conn) }}, nil
	case HTTPS:
		conn = tls.Client(conn, &tls.Config{RootCAs: c.p.CA(), ServerName: "proxy.test", NextProtos: []string{"http/1.1"}})
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: header}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		body, err := io.ReadAll(res.Body)
		return nil, errors.Join(&refusal{res.StatusCode, res.Header, string(body)}, err)
	}
	return &testTunnel{conn, br, conn, func() error { return closeWrite(conn) }}, nil
}

type forward struct{ net.Conn }

func (f forward) Dial(string, string) (net.Conn, error) { return f.Conn, nil }

func (c *tunnelClient) openH2(t *testing.T, target string, header http.Header) (*testTunnel, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	t.Cleanup(cancel)
	pr, pw := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodConnect, "https://proxy.test", pr)
	if err != nil {
		return nil, err
	}
	req.Host = target
	req.Header = header
	res, err := c.h2.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode/100 != 2 {
		body, err := io.ReadAll(res.Body)
		return nil, errors.Join(&refusal{res.StatusCode, res.Header, string(body)}, err)
	}
	return &testTunnel{nil, res.Body, pw, pw.Close}, nil
}

// Write is ambiguous between Conn and Writer.
func (t *testTunnel) Write(b []byte) (int, error) { return t.Writer.Write(b) }

// Read is ambiguous between Conn and Reader.
func (t *testTunnel) Read(b []byte) (int, error) { return t.Reader.Read(b) }
