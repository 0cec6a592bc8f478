package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

const checks = "health_uri /status/204\nhealth_status 204\nhealth_interval 50ms\n"

// checked counts the health checks that the origin got.
func (b *bed) checked() int {
	n := 0
	for _, r := range b.origin.Requests() {
		if r.URI == "/status/204" {
			n++
		}
	}
	return n
}

// TestHealthChecks checks origins over every way and protocol. The checks take the same way as the requests.
func TestHealthChecks(t *testing.T) {
	for _, way := range []string{"http", "https", "h2", "socks5"} {
		for _, protocol := range bedProtocols {
			t.Run("K03_"+way+"_"+protocol, func(t *testing.T) {
				b := newBed(t)
				s := startGuarded(t, b.site(way, protocol, "", checks))
				awaitTrue(t, "health checks", func() bool { return b.checked() >= 2 })
				s.get("/bytes/10", 200)
				for _, r := range b.origin.Requests() {
					if r.Proto != wireProto(protocol) {
						t.Errorf("%s over %s", r.URI, r.Proto)
					}
				}
				if failed := s.logged("HTTP request failed"); len(failed) > 0 {
					t.Errorf("checks failed: %v", failed)
				}
				b.assertNoDirect()
			})
		}
	}
}

// TestHealthCheckFails marks an origin down that cannot be reached by its way, although a check would reach it without.
func TestHealthCheckFails(t *testing.T) {
	b := newBed(t)
	down := testbed.ProxyConfig{Dialect: testbed.SOCKS5, Misbehave: testbed.Misbehave{SOCKSReply: 5}}
	s := startGuarded(t, fmt.Sprintf("reverse_proxy %s {\n%stransport tunnel {\n%s\n}\n}", b.origin.Plain, checks, b.trusting(b.proxy(down))))
	awaitTrue(t, "a failure", func() bool { return len(s.failures()) > 0 })
	awaitTrue(t, "the origin to count as down", func() bool {
		res, _, err := s.do("GET", "/bytes/1", nil, nil)
		return err == nil && res.StatusCode == http.StatusServiceUnavailable
	})
	if n := b.origin.Accepted(); n != 0 {
		t.Errorf("the origin accepted %d connections", n)
	}
}

// TestHealthChecksNeedNoRequest refuses to load ways that a health check cannot take.
func TestHealthChecksNeedNoRequest(t *testing.T) {
	b := newBed(t)
	proxy := b.proxies["https"].URL()
	for name, words := range map[string]string{
		"user":            fmt.Sprintf("via {\nproxy %s {\nauth basic {http.request.header.X-User} {env.HOME}\n}\n}", proxy),
		"password":        fmt.Sprintf("via {\nproxy %s {\nauth basic svc {http.request.header.X-Key}\n}\n}", proxy),
		"header":          fmt.Sprintf("via {\nproxy %s {\nheader X-Tenant {http.request.host}\n}\n}", proxy),
		"proxy's name":    fmt.Sprintf("via {\nproxy %s {\ntls_server_name {http.request.host}\n}\n}", proxy),
		"variable":        fmt.Sprintf("via {\nproxy %s {\nauth basic {http.vars.tenant} x\n}\n}", proxy),
		"farther hop":     fmt.Sprintf("via %s\nthen {\nproxy %s {\nauth basic {http.request.host} x\n}\n}", b.proxies["http"].URL(), proxy),
		"origin's name":   "via " + proxy + "\ntls_server_name {http.request.host}",
		"upstream's name": "via direct\ntls_server_name {http.reverse_proxy.upstream.host}",
	} {
		site := func(checks string) string {
			return fmt.Sprintf("reverse_proxy https://%s {\n%s\ntransport tunnel {\n%s\n}\n}", b.origin.TLS, checks, words)
		}
		if err := validate(t, site(checks)); err == nil || !strings.Contains(err.Error(), "health") {
			t.Errorf("%s: %v", name, err)
		}
		if err := validate(t, site("")); err != nil {
			t.Errorf("%s, without checks: %v", name, err)
		}
	}
	if err := validate(t, fmt.Sprintf("reverse_proxy https://%s {\n%s\ntransport tunnel {\nvia {\nproxy %s {\nauth basic svc {env.HOME}\n}\n}\n}\n}",
		b.origin.TLS, checks, proxy)); err != nil {
		t.Errorf("a placeholder of the environment: %v", err)
	}
	if n := b.origin.Accepted(); n != 0 {
		t.Errorf("validating made %d connections", n)
	}
}
