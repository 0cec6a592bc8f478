package caddymodule

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A client's login at a proxy, which is not ours.
const foreignLogin = "Basic Zm9yZWlnbjpsb2dpbg=="

// loginProxies are proxies of each dialect that want the bed's login, and its ways with it and a field of their own.
func (b *bed) loginProxies() (proxies map[string]*testbed.Proxy, via map[string]string) {
	proxies, via = make(map[string]*testbed.Proxy), make(map[string]string)
	for _, dialect := range append(slices.Clone(httpDialects), "socks5") {
		p := b.proxy(testbed.ProxyConfig{
			Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Username: bedUser, Password: bedPassword,
		})
		words := trustFor(dialect, "tls_trust_pool file "+b.proxyCA+"\n")
		if dialect != "socks5" {
			words += "header X-Team web\n"
		}
		proxies[dialect] = p
		via[dialect] = fmt.Sprintf("via {\nproxy %s {\nauth basic %s %s\n%s}\n}", p.URL(), bedUser, bedPassword, words)
	}
	return proxies, via
}

// assertPrivate checks that proxies and the origin each got what is theirs.
func assertPrivate(t *testing.T, b *bed, proxies map[string]*testbed.Proxy) {
	t.Helper()
	for dialect, p := range proxies {
		if len(p.Seen()) == 0 {
			t.Errorf("%s was not asked", dialect)
		}
		for _, seen := range p.Seen() {
			if seen.User != bedUser || seen.Password != bedPassword {
				t.Errorf("%s got the login %q %q", dialect, seen.User, seen.Password)
			}
			if dialect == "socks5" {
				continue
			}
			names := slices.Sorted(maps.Keys(seen.Header))
			if !slices.Equal(names, []string{"Proxy-Authorization", "X-Team"}) || len(seen.Header["Proxy-Authorization"]) != 1 || seen.Header.Get("X-Team") != "web" {
				t.Errorf("%s got the fields %v", dialect, seen.Header)
			}
		}
	}
	if len(b.origin.Requests()) == 0 {
		t.Error("the origin got no request")
	}
	for _, saw := range b.origin.Requests() {
		text := fmt.Sprint(saw)
		if saw.Header["Proxy-Authorization"] != nil || saw.Header["X-Team"] != nil || findSecret(text) != "" || strings.Contains(text, foreignLogin) {
			t.Errorf("the origin got %s", text)
		}
	}
}

// TestProxyAndOriginPrivacy sends what is the origin's through proxies that have a login and fields of their own.
func TestProxyAndOriginPrivacy(t *testing.T) {
	fields := http.Header{
		"Cookie": {"session=1"}, "Authorization": {"Bearer origin"}, "X-Custom": {"1"}, "Proxy-Authorization": {foreignLogin},
		"Proxy-Connection": {"keep-alive"}, "Connection": {"Proxy-Authorization"}, "User-Agent": {"browser"},
	}
	for name, protocols := range map[string][]string{"C22_login": bedProtocols, "C23_fields": bedProtocols} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			proxies, via := b.loginProxies()
			var site strings.Builder
			var paths []string
			for dialect := range proxies {
				for _, protocol := range protocols {
					upstream, words := b.upstream(protocol)
					site.WriteString(pathSite(dialect+"-"+protocol, upstream, "", via[dialect]+"\n"+words))
					paths = append(paths, "/"+dialect+"-"+protocol)
				}
			}
			s := startGuarded(t, site.String())
			for _, path := range paths {
				first := s.client()
				for _, client := range []*http.Client{first, h2cClient()} {
					for _, method := range []string{"GET", "POST"} {
						req, err := http.NewRequestWithContext(t.Context(), method, s.url+path+"/upload", strings.NewReader("body"))
						if err != nil {
							t.Fatal(err)
						}
						if req.Header = fields.Clone(); client != first {
							req.Header.Del("Connection")
						}
						if method == "GET" {
							req.URL.Path, req.Body, req.ContentLength = path+"/bytes/1", nil, 0
						}
						res, err := client.Do(req)
						if err != nil {
							t.Fatal(err)
						}
						body, err := io.ReadAll(res.Body)
						res.Body.Close()
						if err != nil || res.StatusCode != 200 {
							t.Errorf("%s: %v, %s, %v", path, res, body, err)
						}
					}
					client.CloseIdleConnections()
				}
			}
			assertPrivate(t, b, proxies)
			for _, saw := range b.origin.Requests() {
				if saw.Header.Get("Cookie") != "session=1" || saw.Header.Get("Authorization") != "Bearer origin" || saw.Header.Get("X-Custom") != "1" {
					t.Errorf("the origin did not get what is its: %v", saw.Header)
				}
			}
		})
	}
	t.Run("C22_websocket", func(t *testing.T) {
		b := newBed(t)
		proxies, via := b.loginProxies()
		var site strings.Builder
		for dialect := range proxies {
			site.WriteString(pathSite(dialect, b.origin.Plain, "", via[dialect]))
			site.WriteString(pathSite(dialect+"-tls", "https://"+b.origin.TLS, "", via[dialect]+"\ntls_trust_pool file "+b.originCA))
		}
		s := startGuarded(t, site.String())
		for dialect := range proxies {
			for _, path := range []string{"/" + dialect, "/" + dialect + "-tls"} {
				cfg, err := websocket.NewConfig("ws"+strings.TrimPrefix(s.url, "http")+path+"/ws", s.url)
				if err != nil {
					t.Fatal(err)
				}
				cfg.Header = fields.Clone()
				cfg.Header.Del("Connection")
				conn, err := cfg.DialContext(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}
		}
		awaitTrue(t, "the streams to end", func() bool { return len(s.logged("handled request")) == 2*len(proxies) })
		assertPrivate(t, b, proxies)
	})
	t.Run("C22_trailer", func(t *testing.T) {
		b := newBed(t)
		proxies, via := b.loginProxies()
		var site strings.Builder
		for dialect := range proxies {
			site.WriteString(pathSite(dialect, b.origin.Plain, "", via[dialect]))
			site.WriteString(pathSite(dialect+"-h2c", "h2c://"+b.origin.Plain, "", via[dialect]))
		}
		s := startGuarded(t, site.String())
		for dialect := range proxies {
			for _, path := range []string{"/" + dialect, "/" + dialect + "-h2c"} {
				req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+path+"/upload", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Trailer = http.Header{"Proxy-Authorization": nil, "X-Checksum": nil}
				req.Body = &trailerBody{Reader: strings.NewReader("hello"), set: func() {
					req.Trailer.Set("Proxy-Authorization", foreignLogin)
					req.Trailer.Set("X-Checksum", "abc")
				}}
				res, err := s.client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				answer, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if !strings.Contains(string(answer), "abc") || strings.Contains(string(answer), foreignLogin) || strings.Contains(string(answer), "Proxy-Auth") {
					t.Errorf("%s: the origin got %s", path, answer)
				}
			}
		}
		assertPrivate(t, b, proxies)
	})
}

// TestLoginIsDecodedOnce has logins of every shape in URLs and in auth.
func TestLoginIsDecodedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		login          string // in the URL
		user, password string
	}{
		"C28_all_at_once":       {"svc:%3A%40%2F%25%C3%BC%20%2B+%7B", "svc", ":@/%ü ++{"},
		"C28_escape_of_escape":  {"svc:%2541%2525", "svc", "%41%25"},
		"C28_not_escaped":       {"svc:p@ss:wörd", "svc", "p@ss:wörd"},
		"C28_slash_not_escaped": {"svc:a/b?c", "svc", "a/b?c"},
		"C28_escaped_user":      {"d%C3%BC%40corp:%70ass", "dü@corp", "pass"},
		"C28_no_password":       {"token", "token", ""},
		"C28_empty_password":    {"token:", "token", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			var site strings.Builder
			proxies := make(map[string]*testbed.Proxy)
			for _, dialect := range append(slices.Clone(httpDialects), "socks5") {
				p := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Username: tt.user, Password: tt.password})
				proxies[dialect] = p
				trust := trustFor(dialect, "tls_trust_pool file "+b.proxyCA)
				t.Setenv("TUNNEL_TEST_USER", tt.user)
				t.Setenv("TUNNEL_TEST_PASSWORD", tt.password)
				site.WriteString(pathSite(dialect, b.origin.Plain, "", fmt.Sprintf("via {\nproxy \"%s://%s@%s\" {\n%s\n}\n}", dialect, tt.login, p.Addr, trust)))
				if tt.password != "" { // a placeholder that says nothing is an error
					site.WriteString(pathSite(dialect+"-env", b.origin.Plain, "", fmt.Sprintf("via {\nproxy %s {\nauth basic {env.TUNNEL_TEST_USER} {env.TUNNEL_TEST_PASSWORD}\n%s\n}\n}", p.URL(), trust)))
				}
			}
			s := startGuarded(t, site.String())
			for dialect, p := range proxies {
				s.get("/"+dialect+"/bytes/1", 200)
				if tt.password != "" {
					s.get("/"+dialect+"-env/bytes/1", 200)
				}
				for _, seen := range p.Seen() {
					if seen.User != tt.user || seen.Password != tt.password {
						t.Errorf("%s: %q %q, want %q %q", dialect, seen.User, seen.Password, tt.user, tt.password)
					}
					want := "Basic " + base64.StdEncoding.EncodeToString([]byte(tt.user+":"+tt.password))
					if got := seen.Header.Get("Proxy-Authorization"); dialect != "socks5" && got != want {
						t.Errorf("%s: %q, want %q", dialect, got, want)
					}
				}
			}
		})
	}
}
