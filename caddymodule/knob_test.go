package caddymodule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A recordedConn is a socket that records how many bytes each read asks for.
type recordedConn struct {
	*net.TCPConn
	asked func(n int)
}

func (c *recordedConn) Read(p []byte) (int, error) {
	c.asked(len(p))
	return c.TCPConn.Read(p)
}

// TestPullBytes looks at the bottom of every path: no read of a socket asks for more than pull_bytes, a large body makes reads ask for
// all of it, and the bytes are the same whatever it is.
func TestPullBytes(t *testing.T) {
	const size = 1 << 20
	for _, way := range bedWays {
		for _, protocol := range bedProtocols {
			t.Run("B24_"+way+"_"+protocol, func(t *testing.T) {
				b := newBed(t)
				for _, pull := range []int{1 << 10, 4 << 10, 64 << 10, 256 << 10, 4 << 20} {
					tr := b.transport(way, protocol)
					tr.PullBytes = pull
					provision(t, tr)
					var mu sync.Mutex
					asked := make(map[int]int)
					plain := tr.dial
					tr.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						c, err := plain(ctx, network, addr)
						if err != nil {
							return nil, err
						}
						return &recordedConn{c.(*net.TCPConn), func(n int) {
							mu.Lock()
							defer mu.Unlock()
							asked[n]++
						}}, nil
					}
					res, err := tr.RoundTrip(b.request(t, protocol, fmt.Sprintf("/bytes/%d", size)))
					if err != nil {
						t.Fatal(err)
					}
					sum := sha256.New()
					n, err := io.Copy(sum, res.Body)
					res.Body.Close()
					if err != nil || n != size || hex.EncodeToString(sum.Sum(nil)) != testbed.PageSum(size) {
						t.Fatalf("%d: %d bytes, %v", pull, n, err)
					}
					mu.Lock()
					if asked[pull] == 0 {
						t.Errorf("no read asked for %d bytes: %v", pull, asked)
					}
					for n := range asked {
						if n > pull {
							t.Errorf("a read asked for %d bytes, more than %d", n, pull)
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	t.Run("B24_refused", func(t *testing.T) {
		for _, pull := range []int{-1, 1, 511, 1023, 4<<20 + 1} {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
			tr := newBed(t).transport("direct", "h1")
			tr.PullBytes = pull
			if err := tr.Provision(ctx); err == nil || !strings.Contains(err.Error(), "1 KiB to 4 MiB") {
				t.Errorf("%d: %v", pull, err)
			}
			cancel()
		}
	})
}

// provision provisions a transport outside of a Caddy, and cleans it up with the test.
func provision(t *testing.T, tr *Transport) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if err := tr.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Cleanup() })
}

// transport is a transport over the way and protocol, not provisioned.
func (b *bed) transport(way, protocol string) *Transport {
	tr := new(Transport)
	switch protocol {
	case "h1", "h2":
		tr.TLS = &TLS{reverseproxy.TLSConfig{RootCAPEMFiles: []string{b.originCA}}}
	case "h2c":
		tr.Versions = []string{versionH2C}
	}
	if way == "direct" {
		tr.Via = []*Hop{{Direct: true}}
		return tr
	}
	p := &Proxy{URL: b.proxies[way].URL()}
	if way == "https" || way == "socks5" {
		p.Auth = &ProxyAuth{Username: bedUser, Password: bedPassword}
	}
	if way == "https" || way == "h2" {
		p.TLS = &TLS{reverseproxy.TLSConfig{RootCAPEMFiles: []string{b.proxyCA}}}
	}
	tr.Via = []*Hop{{Proxies: []*Proxy{p}}}
	return tr
}

// request is a request to the bed's origin as reverse_proxy makes it.
func (b *bed) request(t testing.TB, protocol, path string) *http.Request {
	t.Helper()
	addr := map[string]string{"h1": b.origin.TLSH1, "h2": b.origin.TLS}[protocol]
	if addr == "" {
		addr = b.origin.Plain
	}
	req, err := http.NewRequest("GET", "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Scheme = ""
	host, port, _ := net.SplitHostPort(addr)
	ctx := context.WithValue(t.Context(), caddy.CtxKey("reverse_proxy.dial_info"),
		reverseproxy.DialInfo{Network: "tcp", Address: addr, Host: host, Port: port})
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
	return req.WithContext(ctx)
}

// TestHopsAreIdentities checks that requests with other credentials at the proxy do not share a tunnel, and that equal ones do.
func TestHopsAreIdentities(t *testing.T) {
	for _, way := range []string{"http", "https", "socks5", "h2"} {
		t.Run("P05_"+way, func(t *testing.T) {
			b := newBed(t)
			proxy := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(way)})
			tr := b.transport(way, "h2")
			tr.Via[0].Proxies[0].URL = proxy.URL()
			tr.Via[0].Proxies[0].Auth = &ProxyAuth{Username: "{account}", Password: "x"}
			if way == "https" || way == "h2" {
				tr.Via[0].Proxies[0].TLS.InsecureSkipVerify = true
			}
			provision(t, tr)
			for i := range 6 {
				req := b.request(t, "h2", "/bytes/1")
				repl := req.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
				repl.Set("account", "account-"+strconv.Itoa(i%3))
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			users := make(map[string]int)
			for _, r := range proxy.Seen() {
				users[r.User]++
			}
			if n := len(proxy.Seen()); n != 3 {
				t.Errorf("%d tunnels, want 3: one for each account", n)
			}
			// A SOCKS5 proxy that wants no login is sent none.
			if way != "socks5" && (len(users) != 3 || users["account-0"] != 1 || users["account-1"] != 1 || users["account-2"] != 1) {
				t.Errorf("tunnels by user: %v, want one for each of three", users)
			}
			if got := proxy.Accepted(); got != 3 {
				t.Errorf("%d connections to the proxy, want 3: one for each account", got)
			}
		})
	}
}
