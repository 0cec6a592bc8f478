package caddymodule

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A bed is an origin and one proxy of each dialect, for one test.
type bed struct {
	t        *testing.T
	dir      string
	origin   *testbed.Origin
	originCA string
	proxies  map[string]*testbed.Proxy // by dialect
	proxyCA  string
}

// The login of the bed's proxies.
const (
	bedUser     = "svc"
	bedPassword = "bed:p@ss/w%rd"
)

// newBed starts the origin and the proxies, and stops them with the test. The https and socks5 proxies want a login.
func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), proxies: make(map[string]*testbed.Proxy)}
	origin, err := testbed.NewOrigin(testbed.OriginConfig{Socket: filepath.Join(b.dir, "origin.sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { origin.Close() })
	b.origin = origin
	if b.originCA, err = origin.CAFile(b.dir); err != nil {
		t.Fatal(err)
	}
	authority, err := testbed.NewAuthority("proxies")
	if err != nil {
		t.Fatal(err)
	}
	proxyDir := filepath.Join(b.dir, "proxies")
	if err := os.Mkdir(proxyDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if b.proxyCA, err = authority.WriteFile(proxyDir); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []testbed.ProxyConfig{
		{Dialect: testbed.HTTP},
		{Dialect: testbed.HTTPS, Username: bedUser, Password: bedPassword},
		{Dialect: testbed.SOCKS5, Username: bedUser, Password: bedPassword},
		{Dialect: testbed.H2},
	} {
		cfg.Authority = authority
		b.proxies[string(cfg.Dialect)] = b.proxy(cfg)
	}
	return b
}

// proxy starts a further proxy.
func (b *bed) proxy(cfg testbed.ProxyConfig) *testbed.Proxy {
	b.t.Helper()
	p, err := testbed.NewProxy(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { p.Close() })
	return p
}

// bedWays are the ways of the body of tests: every dialect.
var bedWays = []string{"direct", "http", "https", "socks5", "h2"}

// via is the Caddyfile of a way.
func (b *bed) via(way string) string {
	switch way {
	case "direct":
		return "via direct"
	case "http":
		return "via " + b.proxies[way].URL()
	}
	login := ""
	if way != "h2" {
		login = fmt.Sprintf("auth basic %s %s", bedUser, bedPassword)
	}
	trust := ""
	if way != "socks5" {
		trust = "tls_trust_pool file " + b.proxyCA
	}
	return fmt.Sprintf("via {\nproxy %s {\n%s\n%s\n}\n}", b.proxies[way].URL(), login, trust)
}

// bedProtocols are the protocols of the body of tests.
var bedProtocols = []string{"h1", "h1-cleartext", "h2", "h2c"}

// upstream is the upstream of a protocol, and what the transport's block says of the leg to it.
func (b *bed) upstream(protocol string) (upstream, words string) {
	trust := "tls_trust_pool file " + b.originCA
	switch protocol {
	case "h1":
		return "https://" + b.origin.TLSH1, trust
	case "h1-cleartext":
		return "http://" + b.origin.Plain, ""
	case "h2":
		return "https://" + b.origin.TLS, trust
	default:
		return "h2c://" + b.origin.Plain, ""
	}
}

// wireProto is what the origin sees of a protocol.
func wireProto(protocol string) string {
	if protocol == "h2" || protocol == "h2c" {
		return "HTTP/2.0"
	}
	return "HTTP/1.1"
}

// site is a site's body: one reverse_proxy over the way and protocol, with further words in the transport's block and
// in the proxy's.
func (b *bed) site(way, protocol, transportWords, proxyWords string) string {
	upstream, words := b.upstream(protocol)
	return fmt.Sprintf("reverse_proxy %s {\n%s\ntransport tunnel {\n%s\n%s\n%s\n}\n}", upstream, proxyWords, b.via(way), words, transportWords)
}

// assertNoDirect fails the test if the origin accepted a connection that came out of no proxy of the bed.
func (b *bed) assertNoDirect() {
	b.t.Helper()
	b.assertNoDirectTo(slices.Collect(maps.Values(b.proxies))...)
}

// assertNoDirectTo is assertNoDirect with the proxies named. A proxy knows its end of a connection a little later than the origin
// has accepted it.
func (b *bed) assertNoDirectTo(proxies ...*testbed.Proxy) {
	b.t.Helper()
	for deadline := time.After(2 * time.Second); ; {
		direct := b.origin.Direct(proxies...)
		if len(direct) == 0 {
			return
		}
		select {
		case <-deadline:
			for _, p := range direct {
				b.t.Errorf("the origin's %s port was reached directly from %s", p.Listener, p.RemoteAddr)
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// each runs f as a subtest for every way and protocol, each with a Caddy and a bed of its own.
func each(t *testing.T, words string, f func(t *testing.T, b *bed, s *server, way, protocol string)) {
	for _, way := range bedWays {
		for _, protocol := range bedProtocols {
			t.Run(way+"/"+protocol, func(t *testing.T) {
				b := newBed(t)
				s := startCaddy(t, b.site(way, protocol, words, ""))
				f(t, b, s, way, protocol)
				if way != "direct" {
					b.assertNoDirect()
				}
			})
		}
	}
}
