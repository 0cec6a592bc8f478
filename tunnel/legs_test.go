package tunnel

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// offers is what a dialect offers its proxy by ALPN.
var offers = map[Dialect][]string{HTTPS: {"http/1.1"}, H2: {"h2"}}

// TestProxyLeg looks at what TLS shows a proxy.
func TestProxyLeg(t *testing.T) {
	t.Run("T01_own_name", func(t *testing.T) {
		for dialect, offer := range offers {
			p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect)})
			hop := hopTo(p)
			dialEcho(t, hop)
			if hello := p.Peers()[0].TLS; hello.ServerName != "proxy.test" || !slices.Equal(hello.Offered, offer) {
				t.Errorf("%s: the proxy saw %+v", dialect, hello)
			}
			if hop.TLS.NextProtos != nil || hop.TLS.ServerName != "proxy.test" {
				t.Errorf("%s: the dial changed the hop's config", dialect)
			}
		}
	})
	t.Run("T01_certificate_refused_late", func(t *testing.T) {
		cfg := scriptTLS(t)
		cfg.ClientAuth = tls.RequireAnyClientCert // TLS 1.3: the client is done with the handshake before the server is
		for dialect, offer := range offers {
			cfg.NextProtos = offer
			hop := scriptHop(dialect)
			hop.Addr = listen(t, func(conn net.Conn) { _ = tls.Server(conn, cfg).Handshake() }).addr
			_, err := dial(hop)
			e := wantCode(t, err, "proxy_client_cert_refused")
			if e.Stage != StageTLS || e.Addr != hop.Addr || !strings.Contains(err.Error(), "tls_client_auth") {
				t.Errorf("%s: at %s: %v", dialect, e.Stage, err)
			}
		}
	})
	for name, alpn := range map[string][]string{
		"T02_prefers_h2": {"h2", "http/1.1"}, "T02_knows_h2_last": {"http/1.1", "h2"}, "T02_knows_HTTP_1_only": {"http/1.1"}, "T02_knows_no_ALPN": {},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.HTTPS, ALPN: alpn})
			dialEcho(t, hopTo(p))
			if hello := p.Peers()[0].TLS; !slices.Equal(hello.Offered, offers[HTTPS]) {
				t.Errorf("the proxy was offered %v", hello.Offered)
			}
			if r := p.Seen()[0]; r.Proto != "HTTP/1.1" {
				t.Errorf("the proxy was asked over %s", r.Proto)
			}
		})
	}
	t.Run("T02_knows_no_HTTP_1", func(t *testing.T) {
		p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.HTTPS, ALPN: []string{"h3"}})
		_, err := dial(hopTo(p))
		if wantCode(t, err, ProxyProtocolError); !strings.Contains(err.Error(), "h2://") {
			t.Errorf("the error does not say what to write: %v", err)
		}
		if len(p.Seen()) != 0 {
			t.Errorf("the proxy was asked %+v", p.Seen())
		}
	})
	t.Run("T02_h2_that_was_offered", func(t *testing.T) {
		p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.HTTPS, ALPN: []string{"h2"}})
		hop := hopTo(p)
		hop.TLS.NextProtos = []string{"h2", "http/1.1"}
		_, err := dial(hop)
		wantCode(t, err, ProxyProtocolError)
		if len(p.Seen()) != 0 {
			t.Errorf("the proxy was asked %+v", p.Seen())
		}
	})
}

// TestProxyName has proxies with certificates for some names and addresses, which are reached by others.
func TestProxyName(t *testing.T) {
	for name, tt := range map[string]struct {
		host, serverName string
		carries          []string
		sni              string
		code             Code
	}{
		"T12_IPv4":                             {"127.0.0.1", "", []string{"127.0.0.1"}, "", ""},
		"T12_IPv6":                             {"::1", "", []string{"::1"}, "", ""},
		"T12_IPv6_written_long":                {"0:0:0:0:0:0:0:1", "", []string{"::1"}, "", ""},
		"T12_IPv4_as_DNS_name_only":            {"127.0.0.1", "", []string{"localhost"}, "", "proxy_cert_name_mismatch"},
		"T12_other_IPv4":                       {"127.0.0.1", "", []string{"127.0.0.2"}, "", "proxy_cert_name_mismatch"},
		"T12_localhost":                        {"localhost", "", []string{"localhost"}, "localhost", ""},
		"T12_localhost_as_address_only":        {"localhost", "", []string{"127.0.0.1"}, "localhost", "proxy_cert_name_mismatch"},
		"T12_localhost_verified_as_an_address": {"localhost", "127.0.0.1", []string{"127.0.0.1"}, "", ""},
		"T12_IPv4_verified_as_a_name":          {"127.0.0.1", "proxy.test", []string{"proxy.test"}, "proxy.test", ""},
		"T12_name":                             {"proxy.test", "", []string{"proxy.test"}, "proxy.test", ""},
		"T12_name_with_a_dot":                  {"proxy.test.", "", []string{"proxy.test"}, "proxy.test", ""},
		"T12_not_the_target's":                 {"proxy.test", "", []string{"origin.test"}, "proxy.test", "proxy_cert_name_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			for dialect := range offers {
				p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Names: tt.carries})
				hop := hopTo(p)
				_, port, _ := net.SplitHostPort(p.Addr)
				hop.Addr, hop.TLS.ServerName = net.JoinHostPort(tt.host, port), tt.serverName
				d := &Dialer{Hops: []Hop{hop}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, p.Addr)
				}}
				conn, err := d.DialContext(context.Background(), "tcp", startEcho(t, ""))
				if tt.code != "" {
					wantCode(t, err, tt.code)
				} else if err != nil {
					t.Errorf("%s: %v", dialect, err)
				} else {
					conn.Close()
				}
				if hello := p.Peers()[0].TLS; hello.ServerName != tt.sni {
					t.Errorf("%s: the proxy saw the name %q, want %q", dialect, hello.ServerName, tt.sni)
				}
				if asked := len(p.Seen()) > 0; asked != (tt.code == "") {
					t.Errorf("%s: the proxy was asked %+v", dialect, p.Seen())
				}
			}
		})
	}
}

// TestALPNThroughTunnels does TLS through every dialect and over wrapped sockets: what was negotiated at the end is known at
// the beginning.
func TestALPNThroughTunnels(t *testing.T) {
	ca, err := testbed.NewAuthority("origin")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(testbed.CertRequest{Names: []string{"origin.test"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		offer, knows []string
		want         string
	}{
		"T05_h2":          {[]string{"h2", "http/1.1"}, []string{"h2", "http/1.1"}, "h2"},
		"T05_HTTP_1_only": {[]string{"h2", "http/1.1"}, []string{"http/1.1"}, "http/1.1"},
		"T05_none":        {[]string{"h2", "http/1.1"}, nil, ""},
		"T05_not_offered": {[]string{"http/1.1"}, []string{"h2", "http/1.1"}, "http/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			origin := listen(t, func(conn net.Conn) {
				_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: tt.knows}).Handshake()
			})
			ways(t, append([]Dialect{Direct}, proxied...), func(t *testing.T, hops []Hop) {
				sockets := new(sockets)
				conn, err := (&Dialer{Hops: hops, Dial: sockets.dial}).DialContext(context.Background(), "tcp", origin.addr)
				if err != nil {
					t.Fatal(err)
				}
				tconn, err := tlsuser.Client(context.Background(), &socket{Conn: newPrefixConn(conn, nil), of: sockets}, &tlsuser.Config{
					ServerName: "origin.test", RootCAs: ca.Pool(), NextProtos: tt.offer})
				if err != nil {
					t.Fatal(err)
				}
				defer tconn.Close()
				if got := tconn.ConnectionState().NegotiatedProtocol; got != tt.want {
					t.Errorf("negotiated %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// dialEcho goes through hop to an echo and back.
func dialEcho(t *testing.T, hop Hop) {
	t.Helper()
	conn, err := (&Dialer{Hops: []Hop{hop}}).DialContext(context.Background(), "tcp", startEcho(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wantEcho(t, conn, "", "x")
}
