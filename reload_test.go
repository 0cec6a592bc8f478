package caddytunnel_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestReloadWithWebSockets reloads the config while WebSockets are open over every way. Caddy v2.11.9 counts their bytes without
// a lock when a config ends, so it is a process of its own, which nothing looks at for races.
func TestReloadWithWebSockets(t *testing.T) {
	t.Run("K06_without_a_delay_they_are_closed", func(t *testing.T) {
		r := startReloading(t, "")
		r.open()
		r.reload()
		r.assertClosed()
		r.assertNone()
	})
	t.Run("K06_after_the_delay_they_are_closed", func(t *testing.T) {
		r := startReloading(t, "stream_close_delay 100ms")
		r.open()
		r.reload()
		r.assertClosed()
		r.assertNone()
	})
	t.Run("K06_before_the_delay_they_go_on", func(t *testing.T) {
		r := startReloading(t, "stream_close_delay 1h")
		for range 3 {
			r.open()
			r.reload()
			r.echo()
		}
		for _, conn := range r.conns {
			conn.Close()
		}
		r.assertNone()
	})
	t.Run("K06_before_the_delay_Caddy_can_stop", func(t *testing.T) {
		r := startReloading(t, "stream_close_delay 1h")
		r.open()
		r.reload()
		r.echo()
		if code := r.caddy.interrupt(); code != 0 {
			t.Errorf("exit code %d after an interrupt", code)
		}
		r.assertClosed()
		r.assertNone()
	})
}

// reloading is a Caddy with a route for each way, and WebSockets over them.
type reloading struct {
	t           *testing.T
	caddy       *process
	site, admin string // host:port
	config      string
	origin      *testbed.Origin
	proxies     []*testbed.Proxy
	conns       []*websocket.Conn
}

func startReloading(t *testing.T, words string) *reloading {
	t.Helper()
	r := &reloading{t: t, site: "127.0.0.1:" + freePort(t), admin: "127.0.0.1:" + freePort(t)}
	var err error
	if r.origin, err = testbed.NewOrigin(testbed.OriginConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.origin.Close() })
	dir := t.TempDir()
	ca, err := r.origin.CAFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	routes := ""
	route := func(name, via string) {
		for protocol, upstream := range map[string]string{"tls": "https://" + r.origin.TLS, "plain": "http://" + r.origin.Plain} {
			trust := ""
			if protocol == "tls" {
				trust = "tls_trust_pool file " + ca
			}
			routes += fmt.Sprintf("handle_path /%s-%s/* {\nreverse_proxy %s {\n%s\ntransport tunnel {\n%s\n%s\n}\n}\n}\n", name, protocol, upstream, words, via, trust)
		}
	}
	route("direct", "via direct")
	for _, dialect := range []testbed.Dialect{testbed.HTTP, testbed.HTTPS, testbed.SOCKS5, testbed.H2} {
		p, err := testbed.NewProxy(testbed.ProxyConfig{Dialect: dialect, Authority: r.origin.Authority()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		r.proxies = append(r.proxies, p)
		trust := ""
		if dialect == testbed.HTTPS || dialect == testbed.H2 {
			trust = "tls_trust_pool file " + ca
		}
		route(string(dialect), fmt.Sprintf("via {\nproxy %s {\n%s\n}\n}", p.URL(), trust))
	}
	r.config = fmt.Sprintf("{\nadmin %s\npersist_config off\nstorage_clean_interval off\n}\nhttp://%s {\nbind 127.0.0.1\n%s}\n", r.admin, r.site, routes)
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(r.config), 0o600); err != nil {
		t.Fatal(err)
	}
	r.caddy = newProcess(t, nil, caddyProgram(t), "run", "--config", file)
	r.caddy.start()
	r.caddy.awaitUp("http://"+r.site, 20*time.Second)
	return r
}

// open opens a WebSocket over each way, and uses it.
func (r *reloading) open() {
	r.t.Helper()
	for _, way := range []string{"direct", "http", "https", "socks5", "h2"} {
		for _, protocol := range []string{"tls", "plain"} {
			conn, err := websocket.Dial("ws://"+r.site+"/"+way+"-"+protocol+"/ws", "", "http://"+r.site)
			if err != nil {
				r.t.Fatalf("%s %s: %v", way, protocol, err)
			}
			r.t.Cleanup(func() { conn.Close() })
			r.conns = append(r.conns, conn)
		}
	}
	r.echo()
}

// echo sends a message over each WebSocket and wants it back.
func (r *reloading) echo() {
	r.t.Helper()
	for i, conn := range r.conns {
		var got string
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		if err := websocket.Message.Send(conn, "hello"); err != nil {
			r.t.Errorf("WebSocket %d: %v", i, err)
		}
		if err := websocket.Message.Receive(conn, &got); err != nil || got != "hello" {
			r.t.Errorf("WebSocket %d: %q, %v", i, got, err)
		}
	}
}

// reload has Caddy replace its config by the same one.
func (r *reloading) reload() {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "POST", "http://"+r.admin+"/load", strings.NewReader(r.config))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	req.Header.Set("Cache-Control", "must-revalidate") // even if it is the same
	client := http.Client{Timeout: 30 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("%d %s %v", res.StatusCode, answer, err)
	}
	awaitSettled(r.t, r.site)
	awaitSettled(r.t, r.admin)
}

// assertClosed wants every WebSocket to end by itself.
func (r *reloading) assertClosed() {
	r.t.Helper()
	for i, conn := range r.conns {
		var got string
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		if err := websocket.Message.Receive(conn, &got); err == nil || os.IsTimeout(err) {
			r.t.Errorf("WebSocket %d goes on: %q, %v", i, got, err)
		}
	}
}

// assertNone wants every connection behind Caddy to close.
func (r *reloading) assertNone() {
	r.t.Helper()
	for deadline := time.After(10 * time.Second); ; {
		open := r.origin.Conns()
		for _, p := range r.proxies {
			open += p.Conns()
		}
		if open == 0 {
			return
		}
		select {
		case <-deadline:
			r.t.Fatalf("%d connections are open", open)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
