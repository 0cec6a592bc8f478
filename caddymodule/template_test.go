package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestSplitProxyURL(t *testing.T) {
	for _, tt := range []struct {
		url                    string
		dialect, network, addr string
		user, password         string
		auth                   bool
	}{
		{url: "http://p", dialect: "http", network: "tcp", addr: "p:80"},
		{url: "https://p/", dialect: "https", network: "tcp", addr: "p:443"},
		{url: "h2://p", dialect: "h2", network: "tcp", addr: "p:443"},
		{url: "socks5://p", dialect: "socks5", network: "tcp", addr: "p:1080"},
		{url: "socks5h://p:1", dialect: "socks5", network: "tcp", addr: "p:1"},
		{url: "HTTP://p:8", dialect: "http", network: "tcp", addr: "p:8"},
		{url: "http://[2001:db8::1]:3128", dialect: "http", network: "tcp", addr: "[2001:db8::1]:3128"},
		{url: "http://[2001:db8::1]", dialect: "http", network: "tcp", addr: "[2001:db8::1]:80"},
		{url: "socks5://unix//run/x.sock", dialect: "socks5", network: "unix", addr: "/run/x.sock"},
		{url: "socks5://unix//run/a@b.sock", dialect: "socks5", network: "unix", addr: "/run/a@b.sock"},
		{url: "socks5://u:p@x@unix//run/a@b.sock", dialect: "socks5", network: "unix", addr: "/run/a@b.sock", auth: true, user: "u", password: "p@x"},
		{url: "http://u:p@unix//run/x.sock", dialect: "http", network: "unix", addr: "/run/x.sock", auth: true, user: "u", password: "p"},
		{url: "http://u@p", dialect: "http", network: "tcp", addr: "p:80", auth: true, user: "u"},
		{url: "http://u:@p", dialect: "http", network: "tcp", addr: "p:80", auth: true, user: "u"},
		{url: "http://u%40x:%70a%3Ass%2F%25@p", dialect: "http", network: "tcp", addr: "p:80", auth: true, user: "u@x", password: "pa:ss/%"},
		{url: "http://u:a:b@p", dialect: "http", network: "tcp", addr: "p:80", auth: true, user: "u", password: "a:b"},
		{url: "http://u:a/b@c@p", dialect: "http", network: "tcp", addr: "p:80", auth: true, user: "u", password: "a/b@c"},
		{url: "http://u:{env.T_PW}@p", dialect: "http", network: "tcp", addr: "p:80", auth: true, user: "u", password: "a:b@c/%41{env.T_HOST}"},
		{url: "http://{env.T_HOST}:{env.T_PORT}", dialect: "http", network: "tcp", addr: "inner.example:3128"},
		{url: `http://u:\{x\}@p`, dialect: "http", network: "tcp", addr: "p:80", auth: true, user: "u", password: "{x}"},
		{url: "{env.T_URL}", dialect: "socks5", network: "tcp", addr: "whole.example:1080", auth: true, user: "u", password: "{env.T_PW}"},
	} {
		t.Run(strings.NewReplacer("/", "|", " ", "_").Replace(tt.url), func(t *testing.T) {
			t.Setenv("T_PW", "a:b@c/%41{env.T_HOST}")
			t.Setenv("T_HOST", "inner.example")
			t.Setenv("T_PORT", "3128")
			t.Setenv("T_URL", "socks5://u:{env.T_PW}@whole.example")
			repl := caddy.NewReplacer()
			u, err := (&Proxy{URL: tt.url}).split(repl)
			if err != nil {
				t.Fatal(err)
			}
			expand := func(tm template) (string, error) { return tm.expand(repl) }
			network, addr, err := u.address(expand)
			if err != nil {
				t.Fatal(err)
			}
			user, err := u.user.expand(repl)
			if err != nil {
				t.Fatal(err)
			}
			password, err := u.password.expand(repl)
			if err != nil {
				t.Fatal(err)
			}
			if string(u.dialect) != tt.dialect || network != tt.network || addr != tt.addr || u.hasAuth != tt.auth ||
				user != tt.user || password != tt.password {
				t.Errorf("got %s %s %s auth %v %q %q", u.dialect, network, addr, u.hasAuth, user, password)
			}
		})
	}
}

func TestSplitProxyURLRefuses(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"", "no scheme"},
		{"p:3128", "no scheme"},
		{"://p", "no scheme"},
		{"direct", "no scheme"},
		{"{http.request.host}://p", "no scheme"},
		{"ftp://hunter2:hunter2@p", "not known"},
		{"u:hunter2@http://p", "not a scheme"},
		{"socks4a://p", "refused"},
		{"h3://p", "TCP"},
		{"pac+http://p/x", "refused"},
		{"http://", "no host"},
		{"http://:80", "no host"},
		{"http://p:", "without a port"},
		{"http://p:0", "1 to 65535"},
		{"http://p:hunter2", "1 to 65535"},
		{"http://hunter2:hunter2@p:70000", "1 to 65535"},
		{"http://p/path", "no path"},
		{"http://p?x=1", "no path"},
		{"http://2001:db8::1", "brackets"},
		{"http://[2001:db8::1", "closing bracket"},
		{"http://[::1]x", "only :port"},
		{"http://[name]:1", "not an IPv6"},
		{"http://@p", "empty user"},
		{"http://:hunter2@p", "empty user"},
		{"http://u:hunter2%zz@p", "percent escape"},
		{"http://u:{http.request.uri.path.file.pw}@p", "absolute path"},
		{"http://{http.request.host}", "must not depend on the request"},
		{"http://p:{http.request.port}", "must not depend on the request"},
		{"http://unix/run/x", "absolute path"},
	} {
		_, err := splitProxyURL(tt.url, false)
		if err == nil {
			t.Errorf("%s: accepted", tt.url)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %q, want one with %q", tt.url, err, tt.want)
		}
		if strings.Contains(tt.url, "hunter2@") && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error holds the password: %s", tt.url, err)
		}
	}
}

func TestExpandRefusesEmptyUnknownAndControl(t *testing.T) {
	repl := caddy.NewEmptyReplacer()
	repl.Set("empty", "")
	repl.Set("crlf", "a\r\nProxy-Authorization: x")
	for key, want := range map[string]string{"empty": "is empty", "unknown": "not known", "crlf": "CR, LF or NUL"} {
		_, err := parseTemplate("x{" + key + "}y").expand(repl)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	for key, want := range map[string]string{"env.T_NOT_SET": "(Caddy runs without the variable)",
		"file./nowhere/at/all": "(Caddy cannot read the file, or nothing is in it)"} {
		if _, err := parseTemplate("{" + key + "}").expand(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	repl.Set("nested", "{secret}")
	repl.Set("secret", "hunter2")
	if v, err := parseTemplate("{nested}").expand(repl); v != "{secret}" || err != nil {
		t.Errorf("a value was expanded again: %q %v", v, err)
	}
}

// FuzzSplitProxyURL checks that no error holds what stands before the last @, and that what is accepted has a dialect and a host.
func FuzzSplitProxyURL(f *testing.F) {
	for _, s := range []string{"http://u:p@h:1", "socks5://unix//x", "h2://{env.X}:{env.Y}", "http://[::1]:3", "https://a:b%40@h/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := splitProxyURL(s, false)
		if err == nil {
			if u.dialect == "" || u.host.empty() {
				t.Fatalf("%q: accepted without dialect or host", s)
			}
			return
		}
		if u != nil {
			return
		}
		const secret = "s3cr3t-pa55"
		if _, err := splitProxyURL("http://user:"+secret+"@"+s, false); err != nil && strings.Contains(err.Error(), secret) {
			t.Fatalf("the error holds the password: %v", err)
		}
	})
}

func TestBypass(t *testing.T) {
	rules, err := parseBypass([]string{"internal.example", ".sub.example", "*.star.example:8443", "10.0.0.0/8", "192.0.2.1", "[2001:db8::1]:443", "fe80::1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, port string
		want       bool
	}{
		{"internal.example", "80", true},
		{"INTERNAL.example.", "80", true},
		{"x.internal.example", "80", false},
		{"sub.example", "80", false},
		{"a.sub.example", "80", true},
		{"asub.example", "80", false},
		{"a.star.example", "8443", true},
		{"a.star.example", "443", false},
		{"10.1.2.3", "1", true},
		{"::ffff:10.1.2.3", "1", true},
		{"11.1.2.3", "1", false},
		{"192.0.2.1", "9", true},
		{"2001:db8::1", "443", true},
		{"2001:db8::1", "80", false},
		{"fe80::1%eth0", "80", true},
		{"10.example", "80", false},
		{"example.com", "80", false},
	} {
		if got := bypassed(rules, tt.host, tt.port); got != tt.want {
			t.Errorf("%s port %s: %v", tt.host, tt.port, got)
		}
	}
	private, err := parseBypass([]string{"private_ranges"})
	if err != nil {
		t.Fatal(err)
	}
	if !bypassed(private, "192.168.1.1", "80") || !bypassed(private, "127.0.0.1", "80") || bypassed(private, "8.8.8.8", "80") {
		t.Error("private_ranges")
	}
	for _, bad := range []string{"", ".", "*", "a*b", "10.0.0.0/99", "x:0", "x:y", "{env.X}", "*x.example"} {
		if _, err := parseBypass([]string{bad}); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}
