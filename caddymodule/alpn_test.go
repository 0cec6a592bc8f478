package caddymodule

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestALPN looks at what each leg is offered, and at what is spoken after it, over every way and with a PROXY header in front.
func TestALPN(t *testing.T) {
	for id, way := range map[string]string{"T05_direct": "direct", "T05_http": "http", "T05_https": "https", "T05_h2": "h2", "T05_socks5": "socks5"} {
		t.Run(id, func(t *testing.T) {
			b := newBed(t)
			var site string
			for _, header := range []string{"", "proxy_protocol v1", "proxy_protocol v2"} {
				words := fmt.Sprintf("%s\ntls_trust_pool file %s\n%s\n", b.via(way), b.originCA, header)
				suffix := header[max(len(header)-2, 0):]
				site += pathSite("both"+suffix, "https://"+b.origin.TLS, "", words) +
					pathSite("old"+suffix, "https://"+b.origin.TLSH1, "", words) +
					pathSite("asked1"+suffix, "https://"+b.origin.TLS, "", words+"versions 1.1") +
					pathSite("asked2"+suffix, "https://"+b.origin.TLS, "", words+"versions 1.1 2")
			}
			s := startGuarded(t, site)
			for _, suffix := range []string{"", "v1", "v2"} {
				for path, want := range map[string][2]string{"both": {"HTTP/2.0", "h2"}, "old": {"HTTP/1.1", "http/1.1"}, "asked1": {"HTTP/1.1", "http/1.1"}, "asked2": {"HTTP/2.0", "h2"}} {
					s.get("/"+path+suffix+"/bytes/1000", 200)
					requests := b.origin.Requests()
					if saw := requests[len(requests)-1]; saw.Proto != want[0] || saw.ALPN != want[1] || (saw.ProxyHeader != "") != (suffix != "") {
						t.Errorf("/%s%s: %s after ALPN %q, PROXY header %q", path, suffix, saw.Proto, saw.ALPN, saw.ProxyHeader)
					}
				}
			}
			for _, peer := range b.origin.Seen() {
				if offered := strings.Join(peer.TLS.Offered, " "); offered != "h2 http/1.1" && offered != "http/1.1" {
					t.Errorf("the origin was offered %q", offered)
				}
			}
			if p := b.proxies[way]; p != nil {
				for _, peer := range p.Peers() {
					if want := map[string]string{"https": "http/1.1", "h2": "h2"}[way]; peer.TLS != nil && strings.Join(peer.TLS.Offered, " ") != want {
						t.Errorf("the proxy was offered %q", peer.TLS.Offered)
					}
				}
				b.assertNoDirect()
			}
		})
	}
	t.Run("T05_wrapped_sockets", func(t *testing.T) {
		b := newBed(t)
		for _, way := range bedWays {
			tr := b.transport(way, "h2")
			provision(t, tr)
			plain := tr.dial
			tr.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := plain(ctx, network, addr)
				return struct{ net.Conn }{conn}, err // nothing of a TCP socket shows through
			}
			for protocol, want := range map[string]string{"h1": "HTTP/1.1", "h2": "HTTP/2.0"} {
				res, err := tr.RoundTrip(b.request(t, protocol, "/bytes/1"))
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				res.Body.Close()
				if res.Proto != want {
					t.Errorf("%s: %s, want %s", way, res.Proto, want)
				}
			}
		}
	})
	for id, alpn := range map[string][]string{"T02_prefers_h2": {"h2", "http/1.1"}, "T02_knows_no_ALPN": {}} {
		t.Run(id, func(t *testing.T) {
			b := newBed(t)
			p := b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTPS, Authority: b.proxies["https"].Authority(), ALPN: alpn})
			for _, protocol := range bedProtocols { // whatever is spoken to the origin
				upstream, words := b.upstream(protocol)
				s := startGuarded(t, pathSite("x", upstream, "", b.trusting(p)+"\n"+words))
				s.get("/x/bytes/1", 200)
			}
			for _, peer := range p.Peers() {
				if !slices.Equal(peer.TLS.Offered, []string{"http/1.1"}) {
					t.Errorf("the proxy was offered %q", peer.TLS.Offered)
				}
			}
			for _, r := range p.Seen() {
				if r.Proto != "HTTP/1.1" || r.Method != http.MethodConnect {
					t.Errorf("the proxy was asked %s over %s", r.Method, r.Proto)
				}
			}
		})
	}
}
