package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// TestPing has origins behind a tunnel whose packets go nowhere from one moment on.
func TestPing(t *testing.T) {
	const words = "ping 1s 1s"
	once := asks("h2", 0, "GET", "") + says("h2", 0)
	t.Run("H08_idle", func(t *testing.T) {
		o := startScripted(t, "http", "h2", words, once+"-> unanswered", once+"-> rest")
		o.answered("GET", "")
		awaitTrue(t, "the dead tunnel to be closed", func() bool { return o.bed.proxies["http"].Conns() == 0 })
		o.answered("GET", "")
		o.opened("http", 2)
	})
	t.Run("H08_waiting_for_a_head", func(t *testing.T) {
		o := startScripted(t, "http", "h2", words, asks("h2", 0, "POST", "data")+"-> unanswered", once+"-> rest")
		res, got, err := o.do("POST", "/", strings.NewReader("data"), nil)
		if err != nil || res.StatusCode != http.StatusGatewayTimeout || len(got) > 0 {
			t.Errorf("%v %q %v", res, got, err)
		}
		o.loggedCode(t, "origin_timeout", 1)
		o.answered("GET", "")
		o.opened("http", 2)
	})
	t.Run("H08_in_mid_body", func(t *testing.T) {
		begun := strings.TrimSuffix(says("h2c", 0), " END_STREAM\n") + "\n"
		o := startScripted(t, "http", "h2c", words, asks("h2c", 0, "GET", "")+begun+"-> unanswered", once+"-> rest")
		if res, got, err := o.do("GET", "/", nil, nil); err == nil {
			t.Errorf("%v %q", res, got)
		}
		o.bodyFailed(t, 0, "body_incomplete", o.peer.Addr)
		o.answered("GET", "")
		o.opened("http", 2)
	})
	t.Run("H08_kept_while_it_answers", func(t *testing.T) {
		o := startScripted(t, "http", "h2c", words, once+asks("h2c", 1, "GET", "")+"-> PING\n-> PING\n"+says("h2c", 1)+"-> rest")
		o.answered("GET", "")
		o.answered("GET", "")
		o.opened("http", 1)
	})
}

// TestPingIdle says how long a connection may be silent, which depends on what it is for.
func TestPingIdle(t *testing.T) {
	plain := &http.Request{Header: http.Header{"Content-Type": {"text/plain"}}}
	grpc := &http.Request{Header: http.Header{"Content-Type": {"application/grpc+proto"}}}
	for name, tt := range map[string]struct {
		ping        *Ping
		plain, grpc time.Duration
	}{
		"default":      {nil, 30 * time.Second, 5 * time.Minute},
		"timeout_only": {&Ping{Timeout: caddy.Duration(time.Second)}, 30 * time.Second, 5 * time.Minute},
		"configured":   {&Ping{Idle: caddy.Duration(time.Minute)}, time.Minute, time.Minute},
		"off":          {&Ping{Idle: -1}, -1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.ping.idleFor(plain); got != tt.plain {
				t.Errorf("%v, want %v", got, tt.plain)
			}
			if got := tt.ping.idleFor(grpc); got != tt.grpc {
				t.Errorf("gRPC: %v, want %v", got, tt.grpc)
			}
		})
	}
}
