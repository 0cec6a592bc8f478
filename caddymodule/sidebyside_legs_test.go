package caddymodule

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestSideBySideLegs looks at what each leg's other end is told.
func TestSideBySideLegs(t *testing.T) {
	t.Run("V03_host_header_of_a_plain_origin", func(t *testing.T) {
		sideBySide(t, func(s *side) { s.assertHostHasNoSay("http://"+s.b.origin.Plain, s.b.origin.Plain, "") })
	})
	t.Run("V03_host_header_of_an_h2c_origin", func(t *testing.T) {
		sideBySide(t, func(s *side) { s.assertHostHasNoSay("h2c://"+s.b.origin.Plain, s.b.origin.Plain, "") })
	})
	t.Run("V03_host_header_of_a_tls_origin", func(t *testing.T) {
		sideBySide(t, func(s *side) {
			// Over TLS the upstream's name is the default.
			s.assertHostHasNoSay("https://"+s.b.origin.TLS, s.b.origin.TLS, "header_up Host {hostport}")
		})
	})
	t.Run("V04_h2c", func(t *testing.T) {
		sideBySide(t, func(s *side) {
			c := startCaddy(s.t, s.site("h2c://"+s.b.origin.Plain, "", "")+
				"handle_path /versions/* {\nreverse_proxy "+s.b.origin.Plain+" {\n"+s.through(s.proxies["http"], "versions h2c")+"\n}\n}")
			for _, dialect := range append(s.dialects(), "versions") {
				if saw := s.seen(c, dialect, nil); saw.Proto != "HTTP/2.0" || saw.TLS {
					s.wrong("%s: the origin saw %s, TLS %v", dialect, saw.Proto, saw.TLS)
				}
			}
			s.assertNoDirect()
		})
	})
	t.Run("V05_server_name_with_placeholder", func(t *testing.T) { sideBySide(t, assertServerNameExpanded) })
	t.Run("V06_https_proxy_that_would_take_h2", func(t *testing.T) {
		for _, alpn := range [][]string{{"h2", "http/1.1"}, {"http/1.1", "h2"}, {}} {
			sideBySide(t, func(s *side) {
				p := s.start(testbed.ProxyConfig{Dialect: testbed.HTTPS, ALPN: alpn})
				c := startCaddy(s.t, s.site("https://"+s.b.origin.TLS, "", s.trust()))
				s.get(c, "https", "/headers", nil)
				for _, peer := range p.Peers() {
					if !slices.Equal(peer.TLS.Offered, []string{"http/1.1"}) {
						s.wrong("the proxy was offered %v", peer.TLS.Offered)
					}
				}
				for _, r := range p.Seen() {
					if r.Proto != "HTTP/1.1" || r.Method != "CONNECT" {
						s.wrong("the proxy was asked with %s over %s", r.Method, r.Proto)
					}
				}
			})
		}
	})
	t.Run("V07_server_name_of_the_origin", func(t *testing.T) {
		sideBySide(t, func(s *side) {
			for dialect, offer := range map[string][]string{"https": {"http/1.1"}, "h2": {"h2"}} {
				p := s.proxies[dialect]
				if p == nil {
					continue
				}
				upstream := "https://" + s.b.origin.TLS
				words := s.trust() + "tls_server_name origin.test"
				c := startCaddy(s.t, fmt.Sprintf("reverse_proxy %s {\n%s\n}", upstream, s.throughURL(dialect, dialect+"://localhost:"+port(s.t, p.Addr), words)))
				res, body, err := c.do("GET", "/headers", nil, nil)
				if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), `"server_name": "origin.test"`) {
					s.wrong("%s: %v %v %s", dialect, res, err, body)
				}
				for _, peer := range p.Peers() {
					if peer.TLS.ServerName != "localhost" || !slices.Equal(peer.TLS.Offered, offer) {
						s.wrong("%s: the proxy saw the name %q and ALPN %v", dialect, peer.TLS.ServerName, peer.TLS.Offered)
					}
				}
				if len(p.Peers()) == 0 {
					s.wrong("%s: the proxy has no peer", dialect)
				}
			}
		})
	})
}

// seen asks the origin through the dialect's proxy what it saw.
func (s *side) seen(c *server, dialect string, header http.Header) (saw testbed.Saw) {
	s.t.Helper()
	if err := json.Unmarshal(s.get(c, dialect, "/headers", header), &saw); err != nil {
		s.wrong("%s: %v", dialect, err)
	}
	return saw
}

// hosts are Host headers, from what browsers send to what no server takes.
var hosts = []string{
	"elsewhere.example", "elsewhere.example:99", "UPPER.example", "127.0.0.1", "127.0.0.1:1", "[::1]:443", "[fe80::1]:80", "a..b", ".", ":1",
	"", "x:y:z", "user@elsewhere.example:1", "elsewhere.example/path", "els ewhere", "bücher.example", "127.0.0.1:1\x00",
}

// assertHostHasNoSay sends requests whose Host says every kind of thing: the tunnels lead to the upstream nevertheless, and
// the origin gets Host as it was.
func (s *side) assertHostHasNoSay(upstream, addr, proxyWords string) {
	s.t.Helper()
	words := "keepalive off\n"
	if strings.HasPrefix(upstream, "https") {
		words += s.trust()
	}
	c := startCaddy(s.t, s.site(upstream, proxyWords, words))
	for _, dialect := range s.dialects() {
		served := 0
		for _, host := range hosts {
			// What stands in the target wins.
			for target, want := range map[string]string{"": host, "http://target.example:99": "target.example:99"} {
				before := len(s.b.origin.Requests())
				status := s.rawGet(c, target+"/"+dialect+"/headers", host)
				got := s.b.origin.Requests()[before:]
				switch {
				case status == http.StatusBadRequest && len(got) == 0: // refused as it came in
				case status == 200 && len(got) == 1 && (got[0].Host == want || want == ""):
					served++
				default:
					s.wrong("%s: Host %q to %s: status %d, the origin got %+v", dialect, host, target, status, got)
				}
			}
		}
		targets := s.proxies[dialect].Targets()
		if len(targets) != served || served < 10 {
			s.wrong("%s: the proxy was asked %d times for %d requests", dialect, len(targets), served)
		}
		for _, target := range targets {
			if target != addr {
				s.wrong("%s: the proxy was asked for %s", dialect, target)
			}
		}
		for _, r := range s.proxies[dialect].Seen() {
			if r.Proto != "SOCKS5" && r.Host != addr {
				s.wrong("%s: the proxy got Host %q", dialect, r.Host)
			}
		}
	}
	s.assertNoDirect()
}

// rawGet sends a request whose target and Host no client would send, and returns the status.
func (s *side) rawGet(c *server, target, host string) int {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-Host: forwarded.example\r\nForwarded: host=forwarded.example\r\nConnection: close\r\n\r\n", target, host)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatalf("%s, Host %q: %v", target, host, err)
	}
	res.Body.Close()
	return res.StatusCode
}

// assertServerNameExpanded takes the origin's name from a header of the request: it is sent and verified.
func assertServerNameExpanded(s *side) {
	c := startCaddy(s.t, s.site("https://"+s.b.origin.TLS, "", s.trust()+"tls_server_name {header.X-Sni}"))
	for _, dialect := range s.dialects() {
		if saw := s.seen(c, dialect, http.Header{"X-Sni": {"origin.test"}}); saw.ServerName != "origin.test" {
			s.wrong("%s: the origin saw the name %q", dialect, saw.ServerName)
		}
		requests := len(s.b.origin.Requests())
		for _, name := range []string{"other.test", "", "{header.X-Sni}", "127.0.0.2", "*.test"} {
			res, _, err := c.do("GET", "/"+dialect+"/headers", nil, http.Header{"X-Sni": {name}})
			if err != nil || res.StatusCode != 502 {
				s.wrong("%s, name %q: %v %v", dialect, name, res, err)
			}
		}
		if n := len(s.b.origin.Requests()) - requests; n != 0 {
			s.wrong("%s: %d requests reached an origin without the name", dialect, n)
		}
	}
	for _, peer := range s.b.origin.Seen() {
		if peer.TLS != nil && strings.Contains(peer.TLS.ServerName, "{http.request.header") {
			s.wrong("the origin saw the name %q", peer.TLS.ServerName)
		}
	}
	s.assertNoDirect()
}
