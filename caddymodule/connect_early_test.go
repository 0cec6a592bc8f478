package caddymodule

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestNothingBeforeTheTunnel sends a request with a body through proxies that take five seconds to open the tunnel. Until then
// they get no byte of it: no ClientHello, no preface, no PROXY header, no request.
func TestNothingBeforeTheTunnel(t *testing.T) {
	proxies := map[string]string{
		"http":   "-> head \"CONNECT \"\nquiet 5s\n<- \"HTTP/1.1 200 OK\\r\\n\\r\\n\"\n",
		"https":  "tls http/1.1\n-> head \"CONNECT \"\nquiet 5s\n<- \"HTTP/1.1 200 OK\\r\\n\\r\\n\"\n",
		"socks5": "-> 05 01 00\nquiet 3s\n<- 05 00\n-> 05 01 00 03 0b \"origin.test\" 01 bb\nquiet 2s\n<- 05 00 00 01 7f 00 00 01 00 50\n",
	}
	const (
		request = "-> head \"POST / HTTP/1.1\\r\\n\"\n-> \"body\"\n<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\ndone\"\n-> rest"
		frames  = "h2\n-> HEADERS 1 :method=POST\n-> DATA 1 \"body\" END_STREAM\n<- HEADERS 1 :status=200\n<- DATA 1 \"done\" END_STREAM\n-> rest"
	)
	insecure := &TLS{reverseproxy.TLSConfig{InsecureSkipVerify: true}} // the time in a bubble is before any certificate's
	for name, tt := range map[string]struct {
		transport Transport
		origin    string
	}{
		"C26_http_request":   {Transport{}, request},
		"C26_PROXY_header":   {Transport{ProxyProtocol: "v1"}, "-> \"PROXY TCP4 192.0.2.1 0.0.0.0 1 0\\r\\n\"\n" + request},
		"C26_ClientHello":    {Transport{TLS: insecure, Versions: []string{"1.1"}}, "tls http/1.1\n" + request},
		"C26_ClientHello_h2": {Transport{TLS: insecure}, "tls h2\n" + frames},
		"C26_h2c_preface":    {Transport{Versions: []string{"h2c"}}, frames},
	} {
		t.Run(name, func(t *testing.T) {
			for dialect, begin := range proxies {
				synctest.Test(t, func(t *testing.T) {
					tr := tt.transport
					tr.Via = []*Hop{{Proxies: []*Proxy{{URL: dialect + "://proxy.test:1"}}}}
					if dialect == "https" {
						tr.Via[0].Proxies[0].TLS = insecure
					}
					provision(t, &tr)
					tr.dial = script.Config{TLS: scriptTLS(t)}.Dialer(t, begin+tt.origin)
					began := time.Now()
					res, err := tr.RoundTrip(toOrigin(t))
					if err != nil {
						t.Fatalf("%s: %v", dialect, err)
					}
					if took := time.Since(began); took != 5*time.Second {
						t.Errorf("%s: the answer came after %v", dialect, took)
					}
					if body, err := io.ReadAll(res.Body); err != nil || string(body) != "done" {
						t.Errorf("%s: %q, %v", dialect, body, err)
					}
					res.Body.Close()
				})
			}
		})
	}
}

func scriptTLS(t *testing.T) *tls.Config {
	t.Helper()
	authority, err := testbed.NewAuthority("scripts")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Issue(testbed.CertRequest{Names: []string{"origin.test"}})
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// toOrigin is a request to origin.test:443 as reverse_proxy makes it.
func toOrigin(t *testing.T) *http.Request {
	t.Helper()
	ctx := context.WithValue(context.Background(), caddy.CtxKey("reverse_proxy.dial_info"),
		reverseproxy.DialInfo{Network: "tcp", Address: "origin.test:443", Host: "origin.test", Port: "443"})
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{
		varProxyProtocolInfo: reverseproxy.ProxyProtocolInfo{AddrPort: netip.MustParseAddrPort("192.0.2.1:1")},
	})
	req, err := http.NewRequestWithContext(ctx, "POST", "http://client.test/", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Scheme = ""
	return req
}
