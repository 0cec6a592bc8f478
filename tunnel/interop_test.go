package tunnel_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/peers"
	"github.com/caddytunnel/caddytunnel/tlsuser"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

// The longest body goes through every proxy over TLS; the rest makes do with the others.
var interopSizes = []int64{1, 64 << 10, 1 << 20, 8 << 20}

// interopBodies are what nginx serves for those sizes.
var interopBodies = sync.OnceValue(func() map[int64][]byte {
	bodies := make(map[int64][]byte)
	for _, n := range interopSizes {
		bodies[n] = make([]byte, n)
		if _, err := io.ReadFull(peers.Body(n), bodies[n]); err != nil {
			panic(err)
		}
	}
	return bodies
})

var interopLogin = &tunnel.Auth{Username: "user", Password: "correct horse"}

// interopWay is a real proxy, and how it refuses.
type interopWay struct {
	name   string
	hop    tunnel.Hop
	closed tunnel.Code // what a port at which nothing listens comes to
	wrong  tunnel.Code // what a wrong password comes to; empty if it wants none
}

// interopWays starts every real proxy, with and without a login.
func interopWays(t *testing.T) []interopWay {
	u, p := interopLogin.Username, interopLogin.Password
	web := tunnel.ProxyConnectRefused
	ways := []interopWay{
		{"squid", tunnel.Hop{Dialect: tunnel.HTTP, Addr: peers.Start(t, peers.Squid{}).Addr}, web, ""},
		{"squid-login", tunnel.Hop{Dialect: tunnel.HTTP, Addr: peers.Start(t, peers.Squid{Username: u, Password: p}).Addr}, web, tunnel.ProxyAuthRefused},
		{"danted", tunnel.Hop{Dialect: tunnel.SOCKS5, Addr: peers.Start(t, peers.Danted{}).Addr}, tunnel.SOCKSConnectionRefused, ""},
		{"microsocks", tunnel.Hop{Dialect: tunnel.SOCKS5, Addr: peers.Start(t, peers.Microsocks{}).Addr}, tunnel.SOCKSConnectionRefused, ""},
		{"microsocks-login", tunnel.Hop{Dialect: tunnel.SOCKS5, Addr: peers.Start(t, peers.Microsocks{Username: u, Password: p}).Addr}, tunnel.SOCKSConnectionRefused, tunnel.ProxyAuthRefused},
	}
	// Tinyproxy's configuration takes words, so its password has no space. It answers 401 to a wrong one.
	plain := peers.Start(t, peers.Tinyproxy{})
	login := peers.Start(t, peers.Tinyproxy{Username: u, Password: "word"})
	for suffix, tiny := range map[string]*peers.Peer{"": plain, "-login": login} {
		var wrong tunnel.Code
		var auth *tunnel.Auth
		if tiny == login {
			wrong, auth = tunnel.ProxyConnectRefused, &tunnel.Auth{Username: u, Password: "word"}
		}
		front := peers.Start(t, peers.Nghttpx{Backend: tiny.Addr})
		trust := &tlsuser.Config{RootCAs: front.CA.Pool}
		ways = append(ways,
			interopWay{"tinyproxy" + suffix, tunnel.Hop{Dialect: tunnel.HTTP, Addr: tiny.Addr, Auth: auth}, web, wrong},
			interopWay{"nghttpx-https" + suffix, tunnel.Hop{Dialect: tunnel.HTTPS, Addr: front.Addr, Auth: auth, TLS: trust}, web, wrong},
			interopWay{"nghttpx-h2" + suffix, tunnel.Hop{Dialect: tunnel.H2, Addr: front.Addr, Auth: auth, TLS: trust}, web, wrong},
		)
	}
	for i := range ways {
		if ways[i].wrong != "" && ways[i].hop.Auth == nil {
			ways[i].hop.Auth = interopLogin
		}
	}
	return ways
}

func TestInteropBodies(t *testing.T) {
	origin := peers.StartNginx(t, peers.Nginx{Sizes: interopSizes})
	for _, w := range interopWays(t) {
		t.Run(w.name, func(t *testing.T) {
			d := &tunnel.Dialer{Hops: []tunnel.Hop{w.hop}}
			sizes := interopSizes
			if w.hop.Auth != nil {
				sizes = sizes[:3]
			}
			checkBodies(t, origin, d, sizes)
			checkRefusals(t, origin, d, w)
		})
	}
}

func TestInteropChains(t *testing.T) {
	origin := peers.StartNginx(t, peers.Nginx{Sizes: interopSizes})
	squid := tunnel.Hop{Dialect: tunnel.HTTP, Addr: peers.Start(t, peers.Squid{}).Addr}
	danted := tunnel.Hop{Dialect: tunnel.SOCKS5, Addr: peers.Start(t, peers.Danted{}).Addr}
	front := peers.Start(t, peers.Nghttpx{Backend: peers.Start(t, peers.Tinyproxy{}).Addr})
	h2 := tunnel.Hop{Dialect: tunnel.H2, Addr: front.Addr, TLS: &tlsuser.Config{RootCAs: front.CA.Pool}}
	for name, hops := range map[string][]tunnel.Hop{
		"http-socks5":    {squid, danted},
		"socks5-h2":      {danted, h2},
		"h2-http":        {h2, squid},
		"http-h2-socks5": {squid, h2, danted},
	} {
		t.Run(name, func(t *testing.T) { checkBodies(t, origin, &tunnel.Dialer{Hops: hops}, interopSizes[:3]) })
	}
}

// nghttpx takes three tunnels on a connection: seven that are open at once need three connections, and one more needs none.
func TestInteropCarriers(t *testing.T) {
	origin := peers.StartNginx(t, peers.Nginx{Sizes: interopSizes})
	front := peers.Start(t, peers.Nghttpx{Backend: peers.Start(t, peers.Tinyproxy{}).Addr, MaxStreams: 3})
	carriers := new(tunnel.Carriers)
	defer carriers.Close()
	var dials atomic.Int32
	d := &tunnel.Dialer{
		Hops:     []tunnel.Hop{{Dialect: tunnel.H2, Addr: front.Addr, TLS: &tlsuser.Config{RootCAs: front.CA.Pool}}},
		Carriers: carriers,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	clients := make([]*http.Client, 7)
	for i := range clients {
		clients[i] = client(t, origin, d, "h1")
		fetch(t, clients[i], "https://"+origin.TLS, 1) // its tunnel stays open
	}
	if n := dials.Load(); n != 3 {
		t.Errorf("7 tunnels took %d connections, want 3", n)
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { fetch(t, c, "https://"+origin.TLS, 8<<20) })
	}
	all.Wait()
	clients[0].CloseIdleConnections()
	fetch(t, client(t, origin, d, "h1"), "https://"+origin.TLS, 1)
	if n := dials.Load(); n != 3 {
		t.Errorf("%d connections after all, want 3", n)
	}
}

func TestInteropDantedRefuses(t *testing.T) {
	origin := peers.StartNginx(t, peers.Nginx{Sizes: interopSizes})
	_, port, err := net.SplitHostPort(origin.TLS)
	if err != nil {
		t.Fatal(err)
	}
	strict := peers.Start(t, peers.Danted{DemandLogin: true}).Addr
	for _, c := range []struct {
		name string
		hop  tunnel.Hop
		want tunnel.Code
	}{
		{"rule", tunnel.Hop{Addr: peers.Start(t, peers.Danted{BlockPort: port}).Addr}, tunnel.SOCKSNotAllowed},
		{"no-login", tunnel.Hop{Addr: strict}, tunnel.ProxyAuthRequired},
		{"bad-login", tunnel.Hop{Addr: strict, Auth: interopLogin}, tunnel.ProxyAuthRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.hop.Dialect = tunnel.SOCKS5
			wantCode(t, &tunnel.Dialer{Hops: []tunnel.Hop{c.hop}}, origin.TLS, c.want)
		})
	}
}

func TestInteropProxyUntrusted(t *testing.T) {
	front := peers.Start(t, peers.Nghttpx{Backend: "127.0.0.1:1"})
	other, err := peers.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	for _, dialect := range []tunnel.Dialect{tunnel.HTTPS, tunnel.H2} {
		d := &tunnel.Dialer{Hops: []tunnel.Hop{{Dialect: dialect, Addr: front.Addr, TLS: &tlsuser.Config{RootCAs: other.Pool}}}}
		wantCode(t, d, "127.0.0.1:1", "proxy_cert_untrusted")
	}
}

// checkBodies sends bodies both ways, over every protocol.
func checkBodies(t *testing.T, origin *peers.Web, d *tunnel.Dialer, sizes []int64) {
	short := sizes[:3]
	for _, c := range []struct {
		protocol, url string
		sizes         []int64
	}{
		{"h1", "https://" + origin.TLS, sizes},
		{"h2", "https://" + origin.TLS, sizes},
		{"plain", "http://" + strings.Replace(origin.Plain, "127.0.0.1", "localhost", 1), short},
		{"h2c", "http://" + origin.H2C, short},
	} {
		cl := client(t, origin, d, c.protocol)
		for _, n := range c.sizes {
			fetch(t, cl, c.url, n)
			upload(t, origin, cl, c.url, n)
		}
	}
}

func checkRefusals(t *testing.T, origin *peers.Web, d *tunnel.Dialer, w interopWay) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ln.Addr().String()
	ln.Close()
	wantCode(t, d, closed, w.closed)
	if w.wrong == "" {
		return
	}
	hop := w.hop
	hop.Auth = &tunnel.Auth{Username: hop.Auth.Username, Password: "wrong"}
	wantCode(t, &tunnel.Dialer{Hops: []tunnel.Hop{hop}}, origin.TLS, w.wrong)
	hop.Auth = nil
	wantCode(t, &tunnel.Dialer{Hops: []tunnel.Hop{hop}}, origin.TLS, tunnel.ProxyAuthRequired)
}

func wantCode(t *testing.T, d *tunnel.Dialer, addr string, want tunnel.Code) {
	t.Helper()
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err == nil {
		conn.Close()
	}
	var failed *tunnel.Error
	if !errors.As(err, &failed) || failed.Code != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// client speaks one protocol to the origin, by net/http and over tunnels of d.
func client(t *testing.T, origin *peers.Web, d *tunnel.Dialer, protocol string) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(protocol == "h1" || protocol == "plain")
	protocols.SetHTTP2(protocol == "h2")
	protocols.SetUnencryptedHTTP2(protocol == "h2c")
	offer := []string{"http/1.1"}
	if protocol == "h2" {
		offer = []string{"h2"}
	}
	tr := &http.Transport{
		Protocols:          protocols,
		DisableCompression: true,
		DialContext:        d.DialContext,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			tc, err := tlsuser.Client(ctx, conn, &tlsuser.Config{ServerName: "origin.test", RootCAs: origin.CA.Pool, NextProtos: offer})
			if err != nil {
				return nil, err
			}
			if got := tc.ConnectionState().NegotiatedProtocol; got != offer[0] {
				tc.Close()
				return nil, fmt.Errorf("negotiated %q", got)
			}
			return tc, nil
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func fetch(t *testing.T, c *http.Client, url string, n int64) {
	t.Helper()
	res, err := c.Get(fmt.Sprintf("%s/bytes/%d", url, n))
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", url, res.Status)
	}
	if digest(t, res.Body) != sha256.Sum256(interopBodies()[n]) {
		t.Errorf("%s: %d bytes arrived changed", url, n)
	}
}

func upload(t *testing.T, origin *peers.Web, c *http.Client, url string, n int64) {
	t.Helper()
	body, name := interopBodies()[n], rand.Text()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/upload/"+name, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	f, err := origin.Uploaded(name)
	if err != nil {
		t.Fatalf("%s: %s: %v", url, res.Status, err)
	}
	defer f.Close()
	if digest(t, f) != sha256.Sum256(body) {
		t.Errorf("%s: the origin stored other bytes than the %d sent", url, n)
	}
}

func digest(t *testing.T, r io.Reader) (sum [sha256.Size]byte) {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Error(err)
	}
	h.Sum(sum[:0])
	return sum
}
