package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// What a SOCKS server without a login hears: the greeting, and the request for origin.test:443.
const (
	socksGreets = "-> 05 01 00\n"
	socksAsks   = socksGreets + "<- 05 00\n-> 05 01 00 03 0b \"origin.test\" 01 bb\n"
)

// TestSOCKSRefusals looks at what a browser, the server and the log get of a SOCKS server that opens no tunnel.
func TestSOCKSRefusals(t *testing.T) {
	const goesOn = " 05 00 00 01 7f 00 00 01 00 50 \"HTTP/1.1 200 OK\\r\\nX-Leak: 1\\r\\n\\r\\n\"\n-> eof"
	for name, tt := range map[string]struct {
		script string
		status int
		code   string
		says   string
	}{
		"S05_login_unoffered": {socksGreets + "<- 05 02 01 00" + goesOn, 502, "proxy_auth_required", "a login"},
		"S05_GSSAPI":          {socksGreets + "<- 05 01" + goesOn, 502, "proxy_reply_malformed", "authentication method 1"},
		"S05_no_acceptable":   {socksGreets + "<- 05 ff" + goesOn, 502, "proxy_auth_required", "a login"},
		"S05_version_4":       {socksGreets + "<- 04 00" + goesOn, 502, "proxy_not_socks", "SOCKS4"},
		"S15_reply_1":         {socksAsks + "<- 05 01\n-> eof", 502, "socks_general_failure", "SOCKS reply 1: general failure"},
		"S15_reply_2":         {socksAsks + "<- 05 02\n-> eof", 502, "socks_not_allowed", "SOCKS reply 2: not allowed by its rules"},
		"S15_reply_3":         {socksAsks + "<- 05 03\n-> eof", 502, "socks_network_unreachable", "SOCKS reply 3: network unreachable"},
		"S15_reply_4":         {socksAsks + "<- 05 04\n-> eof", 502, "socks_host_unreachable", "SOCKS reply 4: host unreachable"},
		"S15_reply_5":         {socksAsks + "<- 05 05\n-> eof", 502, "socks_connection_refused", "SOCKS reply 5: connection refused"},
		"S15_reply_6":         {socksAsks + "<- 05 06\n-> eof", 504, "socks_ttl_expired", "SOCKS reply 6: time to live expired"},
		"S15_reply_0x5B":      {socksAsks + "<- 05 5b\n-> eof", 502, "socks_reply_unknown", "SOCKS reply 91"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			via, peer := b.scripted("socks5", tt.script)
			s := startGuarded(t, pathSite("x", "https://origin.test", "", via)+pathSite("again", "https://origin.test", "lb_retries 2", via))
			tries := 0
			for _, path := range []string{"/x/", "/again/"} {
				for _, method := range []string{"GET", "POST"} { // nothing reached an origin, so both may be tried again
					res, body, err := s.do(method, path, strings.NewReader("body"), nil)
					if err != nil || res.StatusCode != tt.status {
						t.Fatalf("%s: %v, %v", method, res, err)
					}
					assertNothingOfProxy(t, res, body)
					if tries++; path == "/again/" {
						tries += 2
					}
					s.loggedCode(t, tt.code, tries)
					if n := peer.Accepted(); n != tries {
						t.Errorf("%s: %d connections, want %d", method, n, tries)
					}
				}
			}
			if text := fmt.Sprint(s.failures()[0]["error"]); !strings.Contains(text, tt.says) {
				t.Errorf("logged %q, want %q in it", text, tt.says)
			}
			peer.Wait()
		})
	}
}

// TestSOCKSSilence has servers that stop answering.
func TestSOCKSSilence(t *testing.T) {
	silences := map[string]string{"greeting": socksGreets + "-> eof", "request": socksAsks + "-> eof", "in_the_reply": socksAsks + "<- 05 00 00 03\n-> eof"}
	t.Run("S13_client_goes", func(t *testing.T) {
		b := newBed(t)
		for at, text := range silences {
			via, peer := b.scripted("socks5", text)
			s := startGuarded(t, pathSite("x", "https://origin.test", "lb_retries 3", via))
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/x/", nil)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() {
				_, err := s.client().Do(req)
				done <- err
			}()
			awaitTrue(t, "the greeting", func() bool { return len(peer.Heard(0)) > 0 })
			cancel()
			<-done
			peer.Wait()
			if n := peer.Accepted(); n != 1 {
				t.Errorf("%s: %d connections", at, n)
			}
			if e := s.awaitLogged("handled request"); e["status"] != float64(499) {
				t.Errorf("%s: status %v", at, e["status"])
			}
		}
	})
	t.Run("S13_tunnel_timeout", func(t *testing.T) {
		b := newBed(t)
		for at, text := range silences {
			via, peer := b.scripted("socks5", text)
			s := startGuarded(t, pathSite("x", "https://origin.test", "", via+"\ntunnel_timeout 300ms"))
			if res, _, err := s.do("GET", "/x/", nil, nil); err != nil || res.StatusCode != 504 {
				t.Errorf("%s: %v, %v", at, res, err)
			}
			s.loggedCode(t, "proxy_tunnel_timeout", 1)
			peer.Wait()
		}
	})
}

// TestSOCKSLogins writes a login in every way in which it can be written. What stands in a URL is decoded once, what stands
// elsewhere never.
func TestSOCKSLogins(t *testing.T) {
	for name, tt := range map[string]struct {
		inURL, user, password string
	}{
		"S10_letters":                    {"%75ser:%70ass", "user", "pass"},
		"S10_angle_brackets":             {"%3CtorS0X%3E0:x", "<torS0X>0", "x"},
		"S10_escape_of_an_escape":        {"user:%2541%2540", "user", "%41%40"},
		"S10_plus_and_blank":             {"user:a+b%20c", "user", "a+b c"},
		"S10_binary":                     {"user:%ff%00%01", "user", "\xff\x00\x01"},
		"S09_empty_password":             {"user:", "user", ""},
		"S09_no_password":                {"user", "user", ""},
		"S09_empty_password,_escape_too": {"%75ser:", "user", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			t.Setenv("TUNNEL_TEST_USER", tt.user)
			start := func() (p *testbed.Proxy, url string) {
				p = b.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Username: tt.user, Password: tt.password})
				return p, "socks5://" + tt.inURL + "@" + p.Addr
			}
			proxies := make(map[string]*testbed.Proxy)
			var site, url string
			add := func(name, words string, args ...any) {
				site += pathSite(name, b.origin.Plain, "", fmt.Sprintf(words, args...))
			}
			proxies["via"], url = start()
			add("via", "via %s", url)
			proxies["block"], url = start()
			add("block", "via {\nproxy %s\n}", url)
			proxies["then"], url = start()
			add("then", "via %s\nthen %s", b.proxies["http"].URL(), url)
			proxies["network_proxy"], url = start()
			add("network_proxy", "network_proxy url %s", url)
			proxies["short"], url = start()
			site += fmt.Sprintf("handle_path /short/* {\nreverse_proxy %s {\ntransport tunnel %s\n}\n}\n", b.origin.Plain, url)
			proxies["env"], url = start()
			t.Setenv("TUNNEL_TEST_URL", url)
			add("env", "via {env.TUNNEL_TEST_URL}")
			if !strings.Contains(tt.password, "\x00") { // which neither the environment nor a Caddyfile can hold
				proxies["auth"], _ = start()
				add("auth", "via {\nproxy %s {\nauth basic {env.TUNNEL_TEST_USER} `%s`\n}\n}", proxies["auth"].URL(), tt.password)
			}
			s := startGuarded(t, site)
			for path, p := range proxies {
				if res, _, err := s.do("GET", "/"+path+"/bytes/1", nil, nil); err != nil || res.StatusCode != 200 {
					t.Errorf("%s: %v, %v", path, res, err)
				}
				for _, seen := range p.Seen() {
					if seen.User != tt.user || seen.Password != tt.password {
						t.Errorf("%s: %q %q, want %q %q", path, seen.User, seen.Password, tt.user, tt.password)
					}
				}
			}
		})
	}
	t.Run("S09_empty_user", func(t *testing.T) {
		b := newBed(t)
		p := b.proxies["socks5"]
		for _, words := range []string{
			"via socks5://:secret@" + p.Addr, "via socks5://@" + p.Addr, "via socks5://:@" + p.Addr,
			"via {\nproxy " + p.URL() + " {\nauth basic \"\" secret\n}\n}",
		} {
			err := validate(t, pathSite("x", b.origin.Plain, "", words))
			if err == nil || !strings.Contains(err.Error(), "empty user") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", words, err)
			}
		}
		s := startGuarded(t, pathSite("x", b.origin.Plain, "", "via {\nproxy "+p.URL()+" {\nauth basic {http.request.header.X-User} x\n}\n}"))
		s.get("/x/bytes/1", 502)
		s.loggedCode(t, "placeholder_failed", 1)
		if n := p.Accepted(); n != 0 {
			t.Errorf("%d connections to the proxy", n)
		}
	})
}
