package caddymodule

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestProxyHeaderInTunnel has origins that want a PROXY header before anything else, TLS included.
func TestProxyHeaderInTunnel(t *testing.T) {
	t.Run("K01_origins_that_take_nothing_without", func(t *testing.T) {
		b := newBed(t)
		b.demandHeaders()
		var site strings.Builder
		for _, way := range bedWays {
			for _, protocol := range bedProtocols {
				for _, version := range []string{"v1", "v2"} {
					upstream, words := b.upstream(protocol)
					site.WriteString(pathSite(strings.Join([]string{way, protocol, version}, "-"), upstream, "", b.via(way)+"\n"+words+"\nproxy_protocol "+version))
				}
			}
		}
		s := startGuarded(t, site.String())
		for _, way := range bedWays {
			for _, protocol := range bedProtocols {
				for _, version := range []string{"v1", "v2"} {
					path := strings.Join([]string{way, protocol, version}, "-")
					if saw, _ := s.sawOf(path, nil); saw.Proto != wireProto(protocol) || saw.ProxyHeader != "127.0.0.1:0" {
						t.Errorf("%s: the origin saw %s behind the header %q", path, saw.Proto, saw.ProxyHeader)
					}
				}
			}
			if p := b.proxies[way]; p != nil {
				if faults := p.Faults(); len(faults) > 0 {
					t.Errorf("%s: the proxy could not follow: %s", way, faults)
				}
			}
		}
	})
	for id, way := range map[string]string{"K01_bytes_http": "http", "K01_bytes_https": "https", "K01_bytes_h2": "h2", "K01_bytes_socks5": "socks5"} {
		t.Run(id, func(t *testing.T) {
			b := newBed(t)
			for version, header := range map[string]string{
				"v1": `"PROXY TCP4 127.0.0.1 0.0.0.0 0 0\r\n"`,
				"v2": `"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"`,
			} {
				for protocol, begin := range map[string]string{"h1": "tls http/1.1\n", "h2": "tls h2\nh2\n", "h2c": "h2\n", "h1-cleartext": ""} {
					peer := b.scriptConfig().Listen(t, "-> "+header+"\n"+begin+asks(protocol, 0, "GET", "")+says(protocol, 0)+"-> rest")
					scheme, words := "http", ""
					switch protocol {
					case "h2c":
						scheme = "h2c"
					case "h1", "h2":
						scheme, words = "https", "tls_trust_pool file "+b.proxyCA
					}
					s := startGuarded(t, fmt.Sprintf("reverse_proxy %s://%s {\ntransport tunnel {\n%s\n%s\nproxy_protocol %s\n}\n}",
						scheme, peer.Addr, b.via(way), words, version))
					if body := s.get("/", http.StatusOK); string(body) != "ok" {
						t.Errorf("%s %s: %q", protocol, version, body)
					}
				}
			}
		})
	}
}

// TestProxyHeaderOfClients sends requests of several clients to an origin that takes nothing without a PROXY header. Each comes
// on a connection of its own address, of which there is one.
func TestProxyHeaderOfClients(t *testing.T) {
	const requests = 5
	clients := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.1.2.3"}
	assertClients := func(t *testing.T, way, protocol, version string, together bool) {
		b := newBed(t)
		b.demandHeaders()
		s := startGuarded(t, b.site(way, protocol, "proxy_protocol "+version, checks))
		awaitTrue(t, "health checks", func() bool { return b.checked() >= 2 })
		if failed := s.logged("HTTP request failed"); len(failed) > 0 {
			t.Errorf("checks failed: %v", failed)
		}
		var all sync.WaitGroup
		for i := range requests {
			for _, ip := range clients {
				all.Go(func() { getFrom(t, s, ip, fmt.Sprintf("/bytes/%d?of=%s", 1000*i+1, ip)) })
				if !together {
					all.Wait()
				}
			}
		}
		all.Wait()
		for _, r := range b.origin.Requests() {
			if _, client, ok := strings.Cut(r.URI, "of="); ok && r.ProxyHeader != client+":0" {
				t.Errorf("a request of %s came on the connection of %s", client, r.ProxyHeader)
			}
		}
		connections := make(map[string]int) // by the header's address
		for _, p := range b.origin.Seen() {
			if p.ProxyHeader != "" { // one that has only just been accepted has none yet
				connections[strings.TrimSuffix(p.ProxyHeader, ":0")]++
			}
		}
		for _, ip := range clients {
			if n := connections[ip]; n != 1 && (!together || wireProto(protocol) == "HTTP/2.0") {
				t.Errorf("%d connections for %d requests of %s", n, requests, ip)
			}
		}
		if local := map[string]string{"v1": "UNKNOWN", "v2": "LOCAL"}[version]; connections[local] == 0 || len(connections) != len(clients)+1 {
			t.Errorf("connections by address: %v", connections)
		}
		if way != "direct" {
			b.assertNoDirect()
		}
	}
	for id, way := range map[string]string{
		"H17_h2c_direct": "direct", "H17_h2c_http": "http", "H17_h2c_https": "https", "H17_h2c_h2": "h2", "H17_h2c_socks5": "socks5",
	} {
		for _, version := range []string{"v1", "v2"} {
			t.Run(id+"_"+version, func(t *testing.T) { assertClients(t, way, "h2c", version, false) })
			t.Run(id+"_"+version+"_together", func(t *testing.T) { assertClients(t, way, "h2c", version, true) })
		}
	}
	for id, protocol := range map[string]string{"H17_h2": "h2", "H17_http11_over_TLS": "h1", "H17_http11": "h1-cleartext"} {
		t.Run(id, func(t *testing.T) { assertClients(t, "http", protocol, "v2", false) })
		t.Run(id+"_together", func(t *testing.T) { assertClients(t, "http", protocol, "v1", true) })
	}
	t.Run("H17_client_without_an_address", func(t *testing.T) {
		b := newBed(t)
		b.demandHeaders()
		for _, version := range []string{"v1", "v2"} {
			tr := b.transport("http", "h2c")
			tr.ProxyProtocol = version
			provision(t, tr)
			check := b.request(t, "h2c", "/bytes/1")
			if status, code := answer(t, tr, check); status != http.StatusOK {
				t.Errorf("%s: a health check: %d %s", version, status, code)
			}
			// As of a client on a Unix socket. It is not the one whom health checks come from.
			client := check.WithContext(context.WithValue(check.Context(), caddyhttp.VarsCtxKey,
				map[string]any{varProxyProtocolInfo: reverseproxy.ProxyProtocolInfo{}}))
			if status, code := answer(t, tr, client); status != http.StatusBadGateway || code != "proxy_protocol" {
				t.Errorf("%s: %d %s", version, status, code)
			}
		}
		if n := len(b.origin.Requests()); n != 2 {
			t.Errorf("the origin got %d requests", n)
		}
	})
}

// getFrom sends a request from an address of this host.
func getFrom(t *testing.T, s *server, ip, path string) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	res, err := client.Get(s.url + path)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d from %s", res.StatusCode, ip)
	}
}

// demandHeaders replaces the origin by one that takes no connection without a PROXY header.
func (b *bed) demandHeaders() {
	b.t.Helper()
	b.restart(testbed.OriginConfig{RequireProxyHeader: true})
}
