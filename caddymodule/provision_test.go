package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestProvisionRefuses checks that what can never work fails when the config loads, not with each request.
func TestProvisionRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, test := range map[string]struct{ proxy, rest, want string }{
		"negative_time_of_proxy":  {`{"url": "http://p:1", "tunnel_timeout": -1}`, "", "tunnel_timeout must not be negative"},
		"negative_time":           {`{"url": "http://p:1"}`, `"tunnel_timeout": -1`, "tunnel_timeout must not be negative"},
		"negative_tls_of_proxy":   {`{"url": "https://p:1", "tls": {"handshake_timeout": -1}}`, "", "handshake_timeout must not be negative"},
		"negative_tls_of_origin":  {`{"url": "http://p:1"}`, `"tls": {"handshake_timeout": -1}`, "handshake_timeout must not be negative"},
		"colon_in_user":           {`{"url": "http://p:1", "auth": {"username": "a:{env.B}"}}`, "", "a colon cannot be part of a Basic user"},
		"colon_in_user_of_url":    {`{"url": "http://a%3Ab:hunter2@p:1"}`, "", "a colon cannot be part of a Basic user"},
		"line_break_in_password":  {`{"url": "h2://p:1", "auth": {"username": "a", "password": "hunter2\nX: y"}}`, "", "CR, LF or NUL"},
		"long_socks_user":         {`{"url": "socks5://p:1", "auth": {"username": "` + long + `"}}`, "", "at most 255 bytes"},
		"long_socks_password":     {`{"url": "socks5://a:` + long + `@p:1"}`, "", "at most 255 bytes"},
		"line_break_in_header":    {`{"url": "http://p:1", "headers": {"X-A": ["{env.A}\nX: y"]}}`, "", "header X-A: the value has characters"},
		"coding_twice":            {`{"url": "http://p:1"}`, `"decode": ["br", "br"]`, "decode names br twice"},
		"bypass_of_a_direct_way":  {"", `"network_proxy": {"from": "none"}, "bypass": ["a.example"]`, "bypass has no meaning"},
		"except_ports_of_a_proxy": {`{"url": "https://p:1", "tls": {"except_ports": ["80"]}}`, "", "except_ports has no meaning for a proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []string
			if test.proxy != "" {
				parts = append(parts, fmt.Sprintf(`"via": [{"proxies": [%s]}]`, test.proxy))
			}
			if test.rest != "" {
				parts = append(parts, test.rest)
			}
			var tr Transport
			if err := json.Unmarshal([]byte("{"+strings.Join(parts, ",")+"}"), &tr); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
			defer cancel()
			err := tr.Provision(ctx)
			defer tr.Cleanup()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), long) {
				t.Errorf("the error holds a credential: %v", err)
			}
		})
	}
}

// TestMaxIdentities checks that logins which vary leave neither connections to the origin behind nor, where those run over
// HTTP/2 proxies, connections to the proxy.
func TestMaxIdentities(t *testing.T) {
	b := newBed(t)
	proxy := b.proxy(testbed.ProxyConfig{Dialect: testbed.H2})
	tr := b.transport("h2", "h1")
	tr.MaxIdentities = 2
	tr.Via[0].Proxies[0].URL = proxy.URL()
	tr.Via[0].Proxies[0].TLS.InsecureSkipVerify = true
	tr.Via[0].Proxies[0].Auth = &ProxyAuth{Username: "{account}", Password: "x"}
	provision(t, tr)
	for i := range 5 {
		req := b.request(t, "h1", "/bytes/1")
		req.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("account", "account-"+strconv.Itoa(i))
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	// Two carry the connections that are kept, and two may idle.
	awaitTrue(t, "few connections are left", func() bool { return b.origin.Conns() == 2 && proxy.Conns() <= 4 })
}
