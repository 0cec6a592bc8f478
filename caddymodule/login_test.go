package caddymodule

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestPlainPassword tells passwords that stand in the config from those that come from elsewhere.
func TestPlainPassword(t *testing.T) {
	t.Setenv("LOGIN_URL", "http://u:p@proxy.example")
	t.Setenv("LOGIN_PASSWORD", "p")
	for _, tt := range []struct {
		proxy Proxy
		want  bool
	}{
		{Proxy{URL: "http://u:p@proxy.example"}, true},
		{Proxy{URL: "http://proxy.example", Auth: &ProxyAuth{Username: "u", Password: "p"}}, true},
		{Proxy{URL: "http://u@proxy.example"}, false},
		{Proxy{URL: "http://u:{env.LOGIN_PASSWORD}@proxy.example"}, false},
		{Proxy{URL: "{env.LOGIN_URL}"}, false},
	} {
		u, err := tt.proxy.split(caddy.NewReplacer())
		if err != nil {
			t.Fatal(err)
		}
		l, err := tt.proxy.login(u)
		if err != nil || l.plain != tt.want {
			t.Errorf("%s: plain %v, %v", tt.proxy.URL, l.plain, err)
		}
	}
}

// TestPlaceholderErrorNamesItsHop looks at what is logged when a proxy's credentials cannot be expanded.
func TestPlaceholderErrorNamesItsHop(t *testing.T) {
	b := newBed(t)
	tr := b.transport("http", "h1")
	tr.Via[0].Proxies[0].Name = "corp"
	tr.Via[0].Proxies[0].Auth = &ProxyAuth{Username: "{http.request.header.Account}", Password: "x"}
	provision(t, tr)
	_, err := tr.RoundTrip(b.request(t, "h1", "/bytes/1"))
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != "placeholder_failed" || e.Hop != "corp" || !strings.Contains(err.Error(), "proxy corp: user: placeholder {http.request.header.Account}") {
		t.Errorf("%v", err)
	}
	if n := b.origin.Accepted() + b.proxies["http"].Accepted(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}
