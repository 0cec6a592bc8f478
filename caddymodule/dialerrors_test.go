package caddymodule

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestDialErrors fails requests before a byte of them has reached the origin. Whatever the method, reverse_proxy may try them
// again.
func TestDialErrors(t *testing.T) {
	for _, dialect := range bedWays[1:] {
		t.Run("K04_proxy_down_"+dialect, func(t *testing.T) {
			b := newBed(t)
			trust := trustFor(dialect, "tls_trust_pool file "+b.proxyCA)
			via := fmt.Sprintf("via {\nproxy %s://%s {\n%s\n}\n}", dialect, closedAddr(t), trust)
			b.assertDialError("http://"+b.origin.Plain, via, "proxy_dial_refused")
		})
		for name, row := range map[string]struct {
			upstream func(b *bed) string
			code     string
		}{
			"K04_origin_is_not_trusted":    {func(b *bed) string { return stranger(t).TLS }, "origin_cert_untrusted"},
			"K04_origin_is_without_TLS":    {func(b *bed) string { return b.origin.Plain }, "origin_not_tls"},
			"K04_origin_closes_the_TLS":    {func(b *bed) string { return script.Listen(t, "-> 6 bytes\nclose").Addr }, "origin_tls_closed"},
			"K04_origin_refuses_our_TLS12": {func(b *bed) string { return refuser(t, b, tls.VersionTLS12).TLS }, "origin_client_cert_refused"},
		} {
			t.Run(name+"_"+dialect, func(t *testing.T) {
				b := newBed(t)
				b.assertDialError("https://"+row.upstream(b), b.via(dialect)+"\ntls_trust_pool file "+b.originCA, row.code)
			})
		}
		t.Run("K04_another_origin_is_tried_"+dialect, func(t *testing.T) {
			b := newBed(t)
			bad := stranger(t)
			s := startGuarded(t, pathSite("x", fmt.Sprintf("https://%s https://%s", bad.TLS, b.origin.TLS),
				"lb_policy first\nlb_retries 1\nfail_duration 1m", b.via(dialect)+"\ntls_trust_pool file "+b.originCA))
			assertUpload(t, s, "/x/upload")
			s.loggedCode(t, "origin_cert_untrusted", 1)
			if n := len(bad.Requests()); n != 0 {
				t.Errorf("the first origin got %d requests", n)
			}
		})
	}
	for name, row := range map[string]struct {
		dialect testbed.Dialect
		wrong   testbed.Misbehave
		code    string
	}{
		"K04_407_http":               {testbed.HTTP, testbed.Misbehave{Status: 407}, "proxy_auth_required"},
		"K04_407_https":              {testbed.HTTPS, testbed.Misbehave{Status: 407}, "proxy_auth_required"},
		"K04_407_h2":                 {testbed.H2, testbed.Misbehave{Status: 407}, "proxy_auth_required"},
		"K04_SOCKS_refusal":          {testbed.SOCKS5, testbed.Misbehave{SOCKSReply: 5}, "socks_connection_refused"},
		"K04_SOCKS_ruleset":          {testbed.SOCKS5, testbed.Misbehave{SOCKSReply: 2}, "socks_not_allowed"},
		"K04_SOCKS_method_refused":   {testbed.SOCKS5, testbed.Misbehave{Method: 0xff}, "proxy_auth_required"},
		"K04_closes_at_the_greeting": {testbed.SOCKS5, testbed.Misbehave{Close: testbed.AtGreeting}, "proxy_closed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			p := b.proxy(testbed.ProxyConfig{Dialect: row.dialect, Authority: b.proxies["https"].Authority(), Misbehave: row.wrong})
			b.assertDialError("http://"+b.origin.Plain, b.trusting(p), row.code)
		})
	}
}

// stranger is an origin that nobody trusts.
func stranger(t *testing.T) *testbed.Origin {
	t.Helper()
	o, err := testbed.NewOrigin(testbed.OriginConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

// refuser is an origin that wants a client certificate, in the given version of TLS.
func refuser(t *testing.T, b *bed, version uint16) *testbed.Origin {
	t.Helper()
	o, err := testbed.NewOrigin(testbed.OriginConfig{Authority: b.origin.Authority(), ConfigureTLS: func(_ string, cfg *tls.Config) {
		cfg.MinVersion, cfg.MaxVersion, cfg.ClientAuth = version, version, tls.RequireAnyClientCert
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

// assertDialError wants each request to be tried as often as is configured.
func (b *bed) assertDialError(upstream, words, code string) {
	b.t.Helper()
	s := startGuarded(b.t, pathSite("once", upstream, "", words)+pathSite("again", upstream, "lb_retries 2", words))
	for path, attempts := range map[string]int{"once": 1, "again": 3} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			for _, body := range []io.Reader{nil, strings.NewReader("body"), struct{ io.Reader }{testbed.PageReader(uploadBytes)}} {
				before := len(s.failures())
				res, got, err := s.do(method, "/"+path+"/upload", body, nil)
				if err != nil || res.StatusCode != http.StatusBadGateway || len(got) > 0 {
					b.t.Errorf("%s: %v %q %v", method, res, got, err)
				}
				failed := s.failures()[before:]
				if len(failed) != attempts {
					b.t.Errorf("%s was tried %d times, want %d", method, len(failed), attempts)
				}
			}
		}
	}
	for _, e := range s.failures() {
		if e["code"] != code {
			b.t.Fatalf("logged %v, want %s", e, code)
		}
	}
	if n := len(b.origin.Requests()); n != 0 {
		b.t.Errorf("the origin got %d requests", n)
	}
}

// A heldConn gives nothing of what comes after the TLS handshake before something was sent in it. The handshake takes two
// writes, as long as nothing is asked again; more of HTTP may come before the request.
type heldConn struct {
	net.Conn
	until int // writes

	mu     sync.Mutex
	wrote  *sync.Cond
	writes int
	closed bool
}

func (c *heldConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	c.wrote.Broadcast()
	return n, err
}

func (c *heldConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	for c.writes >= 2 && c.writes < c.until && !c.closed {
		c.wrote.Wait()
	}
	c.mu.Unlock()
	return c.Conn.Read(p)
}

func (c *heldConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.wrote.Broadcast()
	c.mu.Unlock()
	return c.Conn.Close()
}

// TestClientCertificateRefusedLate has an origin refuse the certificate with TLS 1.3, where the client's side of the handshake is
// done by then: the request was sent, and must not be sent again.
func TestClientCertificateRefusedLate(t *testing.T) {
	for id, row := range map[string]struct {
		protocol  string
		version   uint16
		writes    int
		retryable bool
	}{
		"K04_refused_behind_the_request_h1":  {"h1", tls.VersionTLS13, 3, false},
		"K04_refused_behind_the_request_h2":  {"h2", tls.VersionTLS13, 4, false},
		"K04_refused_within_the_handshake":   {"h1", tls.VersionTLS12, 0, true},
		"K04_refused_within_the_handshake_2": {"h2", tls.VersionTLS12, 0, true},
	} {
		t.Run(id, func(t *testing.T) {
			b := newBed(t)
			origin := refuser(t, b, row.version)
			addr := map[string]string{"h1": origin.TLSH1, "h2": origin.TLS}[row.protocol]
			for _, method := range []string{"GET", "POST"} {
				tr := b.transport("direct", row.protocol)
				provision(t, tr)
				plain := tr.dial
				tr.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := plain(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					c := &heldConn{Conn: conn, until: row.writes}
					c.wrote = sync.NewCond(&c.mu)
					return c, nil
				}
				req := to(b.request(t, row.protocol, "/upload"), addr)
				req.Method = method
				_, err := tr.RoundTrip(req)
				e, ok := errors.AsType[*Error](err)
				if !ok || e.Code != "origin_client_cert_refused" || e.Stage != "origin_tls" || retryable(err) != row.retryable {
					t.Errorf("%s: %v, retryable %v", method, err, retryable(err))
				}
				if n := origin.Accepted(); n == 0 || !row.retryable && len(origin.Requests()) > 0 {
					t.Errorf("%s: %d connections, %d requests", method, n, len(origin.Requests()))
				}
			}
		})
	}
}
