package caddymodule

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestFailuresCloseTheTunnel fails a hundred requests in each way in which one can once the proxy is connected, and counts
// what is open there.
func TestFailuresCloseTheTunnel(t *testing.T) {
	for name, tt := range map[string]struct {
		misbehave testbed.Misbehave
		upstream  func(b *bed) string
		words     func(b *bed) string
		stage     string // empty: as may be, and requests share a tunnel until it fails
	}{
		"C24_refused":              {testbed.Misbehave{Status: 403, SOCKSReply: 2}, plainUpstream, noWords, "connect"},
		"C24_origin_not_trusted":   {testbed.Misbehave{}, func(b *bed) string { return "https://" + b.origin.TLS }, noWords, "origin_tls"},
		"C24_origin_without_TLS":   {testbed.Misbehave{}, func(b *bed) string { return "https://" + b.origin.Plain }, noWords, "origin_tls"},
		"C24_behind_PROXY_header":  {testbed.Misbehave{}, func(b *bed) string { return "https://" + b.origin.TLS }, func(*bed) string { return "proxy_protocol v2" }, "origin_tls"},
		"C24_origin_speaks_no_h2c": {testbed.Misbehave{}, func(b *bed) string { return "h2c://" + b.origin.TLS }, noWords, ""},
		"C24_origin_closes":        {testbed.Misbehave{CutAfter: 1}, plainUpstream, noWords, "roundtrip"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			var site strings.Builder
			proxies := make(map[string]*testbed.Proxy)
			for _, dialect := range append(slices.Clone(httpDialects), "socks5") {
				p := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Misbehave: tt.misbehave})
				proxies[dialect] = p
				site.WriteString(pathSite(dialect, tt.upstream(b), "", b.trusting(p)+"\n"+tt.words(b)))
			}
			s := startGuarded(t, site.String())
			for dialect, p := range proxies {
				var workers sync.WaitGroup
				for range 4 {
					workers.Go(func() {
						for range 25 {
							if res, _, err := s.do("GET", "/"+dialect+"/bytes/100", nil, nil); err == nil && res.StatusCode != 502 {
								t.Errorf("%s: status %d", dialect, res.StatusCode)
							}
						}
					})
				}
				workers.Wait()
				want := 0
				if dialect == "h2" {
					want = 1 // which carries the next tunnels
				}
				awaitTrue(t, dialect+" to have no socket open", func() bool { return p.Conns() <= want && p.Tunnels() == 0 })
				if n := len(p.Seen()); n < 100 && tt.stage != "" || n == 0 {
					t.Errorf("%s was asked %d times", dialect, n)
				}
			}
			stages := make(map[string]int)
			for _, e := range s.failures() {
				stages[fmt.Sprint(e["stage"])]++
			}
			if stages[tt.stage] != 400 && tt.stage != "" {
				t.Errorf("stages %v, want %s", stages, tt.stage)
			}
		})
	}
}

func plainUpstream(b *bed) string { return b.origin.Plain }

func noWords(*bed) string { return "" }
