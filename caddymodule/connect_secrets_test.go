package caddymodule

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestSecretsStayInside looks for the proxies' password wherever something is printed: the log down to DEBUG, what clients get
// where a site shows its errors, the admin API and the metrics, and the errors of a config that does not load.
func TestSecretsStayInside(t *testing.T) {
	login := url.UserPassword(bedUser, bedPassword).String()
	showErrors := "handle_errors {\nrespond \"{err.message} {err.status_code} {err.trace}\" {err.status_code}\n}\n"
	shows := func(t *testing.T, s *server, path string) {
		t.Helper()
		_, body, err := s.do("GET", path, nil, nil)
		if err != nil || !strings.Contains(string(body), "[") {
			t.Errorf("%s: the client got %q, %v", path, body, err)
		}
		if form := findSecret(string(body)); form != "" {
			t.Errorf("%s: the client got %q", path, body)
		}
	}
	t.Run("C27_failures", func(t *testing.T) {
		b := newBed(t)
		site := showErrors
		var paths []string
		for _, dialect := range append(slices.Clone(httpDialects), "socks5") {
			trust := trustFor(dialect, "tls_trust_pool file "+b.proxyCA)
			for name, m := range map[string]testbed.Misbehave{
				"wants-another": {Status: 407, Method: 2, RawLogin: []byte{1, 1}}, "refuses": {Status: 403, SOCKSReply: 2}, "closes": {Close: testbed.AtRequest}, "garbage": {Garbage: []byte("garbage\r\n\r\n")},
			} {
				p := b.proxy(testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Authority: b.proxies["https"].Authority(), Misbehave: m})
				name = dialect + "-" + name
				site += pathSite(name, b.origin.Plain, "", fmt.Sprintf("via {\nproxy %s://%s@%s {\n%s\n}\n}", dialect, login, p.Addr, trust))
				paths = append(paths, "/"+name+"/")
			}
			site += pathSite(dialect+"-down", b.origin.Plain, "", fmt.Sprintf("via {\nproxy %s://%s@%s {\n%s\n}\n}", dialect, login, closedAddr(t), trust))
			paths = append(paths, "/"+dialect+"-down/")
		}
		s := startGuarded(t, "metrics\n"+site)
		for _, path := range paths {
			shows(t, s, path)
		}
		for _, path := range []string{"/metrics", "/reverse_proxy/upstreams", "/debug/vars"} {
			res, err := http.Get("http://" + s.admin + path)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != 200 || len(text) == 0 {
				t.Errorf("%s: %d, %v", path, res.StatusCode, err)
			}
			if form := findSecret(string(text)); form != "" {
				t.Errorf("%s has the password as %q", path, form)
			}
		}
	})
	t.Run("C27_proxy_says_it_again", func(t *testing.T) {
		b := newBed(t)
		token := base64.StdEncoding.EncodeToString([]byte(bedUser + ":" + bedPassword))
		said := strings.TrimRight(token, "=")
		ok := `<- "HTTP/1.1 200 OK\r\n\r\n"` + "\n"
		site := showErrors
		var paths []string
		for name, tt := range map[string]struct{ dialect, upstream, script string }{
			"status":         {"http", b.origin.Plain, fmt.Sprintf("<- \"Proxy-Authorization: Basic %s\\r\\n\\r\\n\"\n-> rest", token)},
			"reason":         {"http", b.origin.Plain, fmt.Sprintf("<- \"HTTP/1.1 407 Basic %s\\r\\n\\r\\n\"\n-> rest", token)},
			"h2-name":        {"h2", b.origin.Plain, fmt.Sprintf("<- HEADERS 1 :status=200 %s=x\n-> rest", said)},
			"h2-goaway":      {"h2", b.origin.Plain, fmt.Sprintf("<- GOAWAY 1 NO_ERROR %q\nclose", token)},
			"inside":         {"http", b.origin.Plain, ok + fmt.Sprintf("-> head\n<- \"%s\\r\\n\\r\\n\"\nclose", token)},
			"inside-name":    {"http", b.origin.Plain, ok + fmt.Sprintf("-> head\n<- \"HTTP/1.1 200 OK\\r\\n%s\\r\\n\\r\\n\"\nclose", token)},
			"inside-TLS":     {"http", "https://" + b.origin.TLS, ok + fmt.Sprintf("-> 16\n<- \"%s\\r\\n\\r\\n\"\n-> rest", token)},
			"inside-h2c":     {"http", "h2c://" + b.origin.Plain, ok + fmt.Sprintf("h2\n-> HEADERS 1\n<- HEADERS 1 :status=200 %s=x\n-> rest", said)},
			"inside-h2c-bye": {"http", "h2c://" + b.origin.Plain, ok + fmt.Sprintf("h2\n-> HEADERS 1\n<- GOAWAY 1 INTERNAL_ERROR %q\nclose", token)},
			"inside-not-h2c": {"http", "h2c://" + b.origin.Plain, ok + fmt.Sprintf("<- \"%s\\r\\n\\r\\n\"\n-> rest", token)},
		} {
			_, peer := b.scripted(tt.dialect, tt.script)
			site += pathSite(name, tt.upstream, "", fmt.Sprintf("via {\nproxy %s://%s@%s {\n%s\n}\n}", tt.dialect, login, peer.Addr, trustFor(tt.dialect, "tls_trust_pool file "+b.proxyCA)))
			paths = append(paths, "/"+name+"/")
		}
		s := startGuarded(t, site)
		for _, path := range paths {
			shows(t, s, path)
		}
	})
	t.Run("C27_bad_config", func(t *testing.T) {
		for _, words := range []string{
			"via http://%s@proxy.test:99999", "via http://%s@proxy.test:port", "via http://%s@proxy.test:", "via http://%s@", "via http://%s@:80",
			"via http://%s@[::1:80", "via http://%s@pro xy.test:80", "via http://%s@proxy.test/path", "via http://%s@proxy.test?q", "via ftp://%s@proxy.test",
			"via socks4://%s@proxy.test", "via %s@proxy.test:80", "via //%s@proxy.test", "via http://x%%zz%s@proxy.test", "via http://%s@proxy.test then http://%[1]s@b.test",
			"via http://%s@a.test\nvia http://%[1]s@b.test", "via direct\nthen http://%s@a.test", "network_proxy url http://%s@a.test:x", "network_proxy http://%s@a.test",
			"forward_proxy_url http://%s@a.test", "via {\nproxy http://%s@a.test {\nauth basic svc x\n}\n}", "via {\nproxy http://%s@a.test {\nunknown\n}\n}",
			"via {\nproxy http://%s@a.test http://%[1]s@b.test c\n}", "via http://%s@a.test {\nunknown\n}", "via http://%s@a.test http://%[1]s@b.test", "bypass http://%s@a.test",
			"via {\nproxy http://%s@a.test {\ntls_server_name a\n}\n}", "http://%s@a.test", "via {http.request.header.X}%s@a.test", "via http://%s@{http.request.host}",
		} {
			err := validate(t, pathSite("x", "origin.test", "", fmt.Sprintf(words, login)))
			if err == nil {
				t.Errorf("loads: %s", words)
				continue
			}
			if form := findSecret(err.Error()); form != "" {
				t.Errorf("%s: the error has the password as %q: %v", words, form, err)
			}
		}
	})
	t.Run("C27_url_behind_the_wrong_word", func(t *testing.T) {
		misplaced := "http://" + login + "@a.test"
		for _, known := range []map[string]bool{keys(words), keys(tlsWords)} {
			for word := range known {
				for _, block := range []string{"via http://a.test\n%s\n", "via {\nproxy https://a.test {\n%s\n}\n}\n"} {
					for _, arguments := range []string{" %s", " x %s", " {\n%s\n}", " %[1]s {\n%[1]s %[1]s\n}"} {
						text := fmt.Sprintf(block, word+fmt.Sprintf(arguments, misplaced))
						err := validate(t, pathSite("x", "https://origin.test", "", text))
						if err == nil {
							continue // it may be a name of a file or a field
						}
						if form := findSecret(err.Error()); form != "" {
							t.Errorf("%s: the error has the password: %v", word, err)
						}
					}
				}
			}
		}
	})
	t.Run("C27_bad_auth", func(t *testing.T) {
		for _, words := range []string{
			"auth basic %s %[2]s extra", "auth digest %s %s", "auth %s %s", "auth basic a:%[2]s x", "auth basic %s %s\nauth basic %[1]s %[2]s", "header Proxy-Authorization %[2]s",
			"header X-Key %[2]s extra", "header bad:name %[2]s",
		} {
			site := pathSite("x", "origin.test", "", "via {\nproxy http://proxy.test {\n"+fmt.Sprintf(strings.ReplaceAll(words, "%s %s", "%[1]s %[2]s"), bedUser, bedPassword)+"\n}\n}")
			if err := validate(t, site); err == nil {
				t.Errorf("loads: %s", words)
			} else if form := findSecret(err.Error()); form != "" {
				t.Errorf("%s: the error has the password as %q: %v", words, form, err)
			}
		}
	})
}

func keys[V any](m map[string]V) map[string]bool {
	out := make(map[string]bool, len(m))
	for k := range m {
		out[k] = true
	}
	return out
}
