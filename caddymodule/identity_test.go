package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// identities is a site whose one transport takes the proxy's login, the origin and its name from the client's request, and which
// goes to one origin through either of two proxies.
type identities struct {
	*server
	bed         *bed
	secure      bool // the origin is spoken to over TLS
	other       *testbed.Origin
	left, right *testbed.Proxy
	addr        func(*testbed.Origin) string // of the origin's port for the protocol
}

// startIdentities starts the site. admit is asked before the left proxy opens a tunnel; nil: it opens all.
func startIdentities(t *testing.T, protocol string, admit func()) *identities {
	b := newBed(t)
	x := &identities{bed: b, secure: protocol == "h1" || protocol == "h2"}
	var err error
	if x.other, err = testbed.NewOrigin(testbed.OriginConfig{Authority: b.origin.Authority()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.other.Close() })
	x.left = b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP, Allow: func(string) bool {
		if admit != nil {
			admit()
		}
		return true
	}})
	x.right = b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP})
	x.addr = func(o *testbed.Origin) string {
		return map[string]string{"h1": o.TLSH1, "h1-cleartext": o.Plain, "h2": o.TLS, "h2c": o.Plain}[protocol]
	}
	words := ""
	if x.secure {
		words = fmt.Sprintf("tls\ntls_trust_pool file %s\ntls_server_name {header.X-Name}", b.originCA)
	}
	if protocol == "h2c" {
		words = "versions h2c"
	}
	way := func(p *testbed.Proxy) string {
		return fmt.Sprintf("via {\nproxy %s {\nauth basic {header.X-User} {header.X-Password}\nheader X-Tenant {header.X-Tenant}\n}\n}\n%s", p.URL(), words)
	}
	x.server = startGuarded(t, pathSite("left", "{header.X-Origin}", "", way(x.left))+pathSite("right", "{header.X-Origin}", "", way(x.right)))
	return x
}

// A wish is what one request asks of its connection. What is empty is as in every other request.
type wish struct{ side, user, password, tenant, name, origin string }

func (w wish) header(x *identities) (path string, header http.Header) {
	return orWord(w.side, "/left") + "/headers", http.Header{
		"X-User": {orWord(w.user, "alice")}, "X-Password": {orWord(w.password, "one")}, "X-Tenant": {orWord(w.tenant, "red")},
		"X-Name": {orWord(w.name, "origin.test")}, "X-Origin": {orWord(w.origin, x.addr(x.bed.origin))},
	}
}

// fetch sends a request and wants it to travel as it asks, on a connection that was opened for it or for an equal one.
func (x *identities) fetch(w wish) {
	path, header := w.header(x)
	res, body, err := x.do("GET", path, nil, header)
	if err != nil || res.StatusCode != http.StatusOK {
		x.t.Errorf("%+v: %v %v", w, res, err)
		return
	}
	var saw testbed.Saw
	if err := json.Unmarshal(body, &saw); err != nil {
		x.t.Error(err)
		return
	}
	proxy := x.left
	if path == "/right/headers" {
		proxy = x.right
	}
	for _, r := range proxy.Seen() {
		if r.LocalAddr != saw.RemoteAddr {
			continue
		}
		if r.User != header.Get("X-User") || r.Password != header.Get("X-Password") || r.Header.Get("X-Tenant") != header.Get("X-Tenant") ||
			r.Target != header.Get("X-Origin") || x.secure && saw.ServerName != header.Get("X-Name") {
			x.t.Errorf("%+v travelled in the tunnel %+v to %s", w, r, saw.ServerName)
		}
		return
	}
	x.t.Errorf("%+v came out of no tunnel of its proxy, but from %s", w, saw.RemoteAddr)
}

// TestIdentities sends requests that differ in one thing only, in turn and at the same time: each difference has a tunnel of its
// own, and what is equal shares one.
func TestIdentities(t *testing.T) {
	for _, protocol := range bedProtocols {
		for _, row := range []struct {
			name       string
			a, b       wish
			secureOnly bool
		}{
			{"P01_other_proxy", wish{side: "/left"}, wish{side: "/right"}, false},
			{"P04_other_origin", wish{}, wish{origin: "other"}, false},
			{"P04_other_name_of_the_origin", wish{name: "origin.test"}, wish{name: "localhost"}, true},
			{"P05_other_user", wish{user: "alice"}, wish{user: "bob"}, false},
			{"P05_other_password", wish{password: "one"}, wish{password: "two"}, false},
			{"P05_other_field_for_the_proxy", wish{tenant: "red"}, wish{tenant: "blue"}, false},
		} {
			if row.secureOnly && protocol != "h1" && protocol != "h2" {
				continue
			}
			t.Run(row.name+"_"+protocol, func(t *testing.T) {
				x := startIdentities(t, protocol, nil)
				if row.b.origin != "" {
					row.b.origin = x.addr(x.other)
				}
				for range 3 {
					x.fetch(row.a)
					x.fetch(row.b)
				}
				if n := len(x.left.Seen()) + len(x.right.Seen()); n != 2 {
					t.Errorf("%d tunnels for two identities", n)
				}
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() { x.fetch(row.a) })
					all.Go(func() { x.fetch(row.b) })
				}
				all.Wait()
				if row.b.origin != "" && len(x.other.Requests()) != 13 {
					t.Errorf("the other origin got %d requests", len(x.other.Requests()))
				}
				x.bed.assertNoDirectTo(x.left, x.right)
			})
		}
	}
	t.Run("P01_other_proxy_within_one_pool", func(t *testing.T) {
		b := newBed(t)
		left, right := b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP}), b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP})
		for _, protocol := range bedProtocols {
			tr := b.transport("http", protocol)
			provision(t, tr)
			for i := range 6 {
				tr.way.hops[0].addr = []string{left.Addr, right.Addr}[i%2]
				res, err := tr.RoundTrip(b.request(t, protocol, "/bytes/1"))
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
		if l, r := len(left.Seen()), len(right.Seen()); l != len(bedProtocols) || r != len(bedProtocols) {
			t.Errorf("%d tunnels through one proxy, %d through the other, want %d each", l, r, len(bedProtocols))
		}
	})
}

// TestCancelledDial has a request go away while its tunnel opens, and another one come that differs in one thing. What was
// begun for the first is never given to the second.
func TestCancelledDial(t *testing.T) {
	for _, protocol := range bedProtocols {
		for _, row := range []struct {
			name       string
			second     wish
			secureOnly bool
		}{
			{"P03_other_proxy", wish{side: "/right"}, false},
			{"P03_other_user", wish{user: "bob"}, false},
			{"P03_other_name", wish{name: "localhost"}, true},
			{"P03_other_origin", wish{origin: "other"}, false},
		} {
			if row.secureOnly && protocol != "h1" && protocol != "h2" {
				continue
			}
			t.Run(row.name+"_"+protocol, func(t *testing.T) {
				var asked atomic.Int64
				goOn := make(chan struct{})
				x := startIdentities(t, protocol, func() {
					if asked.Add(1) == 1 {
						<-goOn
					}
				})
				if row.second.origin != "" {
					row.second.origin = x.addr(x.other)
				}
				path, header := wish{}.header(x)
				ctx, cancel := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, "GET", x.url+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header = header
				gone := make(chan error)
				go func() {
					_, err := x.client().Do(req)
					gone <- err
				}()
				awaitTrue(t, "the first request's CONNECT", func() bool { return asked.Load() == 1 })
				cancel()
				if <-gone == nil {
					t.Error("the first request was answered")
				}
				x.fetch(row.second)
				close(goOn)
				x.fetch(row.second)
				awaitTrue(t, "the first request's tunnel to close", func() bool { return x.left.Tunnels()+x.right.Tunnels() == 1 })
				x.fetch(wish{}) // dials for itself
				x.fetch(row.second)
				if n := len(x.left.Seen()) + len(x.right.Seen()); n != 3 {
					t.Errorf("%d tunnels were asked for, want 3", n)
				}
				x.bed.assertNoDirectTo(x.left, x.right)
			})
		}
	}
}
