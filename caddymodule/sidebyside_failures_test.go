package caddymodule

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestSideBySideFailures sends requests through proxies that open no tunnel, or open it in an unusual way.
func TestSideBySideFailures(t *testing.T) {
	answered := http.Header{"Proxy-Authenticate": {`Basic realm="x"`}, "Set-Cookie": {"a=b"}}
	t.Run("V10_407_and_retries", func(t *testing.T) {
		sideBySide(t, func(s *side) {
			s.behave(testbed.Misbehave{Status: 407, Header: answered, Body: "the proxy's page"})
			s.assertRetried("proxy_auth_required", "http", "https", "h2")
		})
	})
	t.Run("V11_SOCKS_refusal_and_retries", func(t *testing.T) {
		for _, reply := range []byte{1, 2, 3, 4, 5, 0x5b} {
			sideBySide(t, func(s *side) {
				s.behave(testbed.Misbehave{SOCKSReply: reply})
				s.assertRetried("", "socks5")
			})
		}
		sideBySide(t, func(s *side) {
			s.behave(testbed.Misbehave{Method: 0xff}) // no acceptable method
			s.assertRetried("proxy_auth_required", "socks5")
		})
	})
	t.Run("V13_dial_timeout", func(t *testing.T) {
		addr := blackhole(t)
		if addr == "" {
			t.Fatal("this host has no port that answers nobody")
		}
		sideBySide(t, func(s *side) {
			site := ""
			for _, dialect := range s.dialects() {
				site += fmt.Sprintf("handle_path /%s/* {\nreverse_proxy %s {\n%s\n}\n}\n",
					dialect, s.b.origin.Plain, s.throughURL(dialect, dialect+"://"+addr, "dial_timeout 20ms"))
			}
			s.assertTimedOut(startCaddy(s.t, site), "proxy_dial_timeout")
			if n := s.b.origin.Accepted(); n != 0 {
				s.wrong("the origin got %d connections", n)
			}
		})
	})
	// What `http` does here is to wait for a minute.
	t.Run("V14_silent_proxy", func(t *testing.T) {
		for _, moment := range []testbed.Moment{testbed.AtAccept, testbed.AtGreeting, testbed.AtRequest} {
			t.Run(string(moment), func(t *testing.T) { assertSilenceEnds(t, moment) })
		}
	})
	t.Run("V13_tunnel_timeout", func(t *testing.T) {
		b := newBed(t)
		slow := b.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP, Misbehave: testbed.Misbehave{Silent: testbed.AtRequest}})
		// The second of two has a limit of its own.
		c := startGuarded(t, fmt.Sprintf("reverse_proxy %s {\ntransport tunnel {\nvia %s\nthen {\nproxy %s {\ntunnel_timeout 50ms\n}\n}\ntunnel_timeout 1h\n}\n}",
			b.origin.Plain, b.proxies["http"].URL(), slow.URL()))
		for _, method := range []string{"GET", "POST"} {
			res, body, err := c.do(method, "/upload", strings.NewReader("body"), nil)
			if err != nil || res.StatusCode != http.StatusGatewayTimeout || len(body) > 0 {
				t.Errorf("%s: %v %v %q", method, res, err, body)
			}
		}
		for _, e := range c.failures() {
			if e["code"] != "proxy_tunnel_timeout" || e["hop"] != slow.URL() {
				t.Errorf("logged %v", e)
			}
		}
	})
	t.Run("V18_CONNECT_answered_201", func(t *testing.T) {
		for _, status := range []int{201, 202, 299} {
			sideBySide(t, func(s *side) {
				s.behave(testbed.Misbehave{Status: status})
				s.assertUp("https://"+s.b.origin.TLS, s.trust())
				s.assertUp("http://"+s.b.origin.Plain, "")
			})
		}
	})
	t.Run("V18_interim_reply_and_200", func(t *testing.T) {
		const final = "HTTP/1.1 200 OK\r\nVia: x\r\n\r\n"
		for _, interim := range []string{"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "HTTP/1.1 102 \r\n\r\nHTTP/1.1 110 x\r\n\r\n"} {
			sideBySide(t, func(s *side) {
				delete(s.proxies, "socks5")
				delete(s.proxies, "h2")
				s.behave(testbed.Misbehave{RawReply: []byte(interim + final)})
				s.assertUp("https://"+s.b.origin.TLS, s.trust())
				s.assertUp("http://"+s.b.origin.Plain, "")
			})
		}
	})
}

// assertRetried posts through each of the proxies, which refuse: as nothing reached the origin, the request is tried as
// often as it may be, and the client gets nothing of the refusal.
func (s *side) assertRetried(code string, dialects ...string) {
	s.t.Helper()
	c := startCaddy(s.t, s.site("https://"+s.b.origin.TLS, "lb_retries 2", s.trust()))
	for _, dialect := range dialects {
		p := s.proxies[dialect]
		if p == nil {
			continue
		}
		for _, method := range []string{"GET", "POST", "PATCH"} {
			asked := func() int { return int(p.Accepted()) }
			if dialect == "h2" { // all on one connection
				asked = func() int { return len(p.Seen()) }
			}
			before := asked()
			res, body, err := c.do(method, "/"+dialect+"/upload", testbed.PageReader(uploadBytes), nil)
			if err != nil || res.StatusCode != http.StatusBadGateway || len(body) > 0 || res.Header.Get("Set-Cookie") != "" {
				s.wrong("%s, %s: %v %v %q", dialect, method, res, err, body)
			}
			if n := asked() - before; n != 3 {
				s.wrong("%s, %s: the proxy was asked %d times", dialect, method, n)
			}
		}
	}
	failures := c.failures()
	if n := len(failures); n != 9*len(dialects) {
		s.wrong("%d failures logged", n)
	}
	for _, e := range failures {
		if code != "" && e["code"] != code {
			s.wrong("logged %v", e)
		}
	}
	if n := s.b.origin.Accepted(); n != 0 {
		s.wrong("the origin got %d connections", n)
	}
}

// assertTimedOut sends requests that each proxy lets wait.
func (s *side) assertTimedOut(c *server, code string) {
	s.t.Helper()
	for _, dialect := range s.dialects() {
		for _, method := range []string{"GET", "POST"} {
			res, body, err := c.do(method, "/"+dialect+"/upload", strings.NewReader("body"), nil)
			if err != nil || res.StatusCode != http.StatusGatewayTimeout || len(body) > 0 {
				s.wrong("%s, %s: %v %v %q", dialect, method, res, err, body)
			}
		}
	}
	for _, e := range c.failures() {
		if code != "" && e["code"] != code {
			s.wrong("logged %v", e)
		}
	}
}

// assertSilenceEnds asks proxies that say nothing from some moment on.
func assertSilenceEnds(t *testing.T, moment testbed.Moment) {
	s := newSide(t, "tunnel")
	s.behave(testbed.Misbehave{Silent: moment})
	code := "proxy_tunnel_timeout"
	if moment == testbed.AtAccept {
		code = "" // TLS has another
	}
	s.assertTimedOut(startCaddy(t, s.site(s.b.origin.Plain, "", "tunnel_timeout 50ms")), code)
	for dialect, p := range s.proxies {
		if dialect != "h2" || moment == testbed.AtAccept { // one that carries tunnels may stay
			awaitTrue(t, "the connections to the proxy to end", func() bool { return p.Conns() == 0 })
		}
	}
	if n := s.b.origin.Accepted(); n != 0 {
		t.Errorf("the origin got %d connections", n)
	}
}

// assertUp uploads through every proxy, over a tunnel that is new.
func (s *side) assertUp(upstream, words string) {
	s.t.Helper()
	site := ""
	for dialect, p := range s.proxies {
		site += fmt.Sprintf("handle_path /%s/* {\nreverse_proxy %s {\n%s\n}\n}\n", dialect, upstream, s.through(p, words))
	}
	c := startCaddy(s.t, site)
	for dialect := range s.proxies {
		res, body, err := c.do("POST", "/"+dialect+"/upload", testbed.PageReader(uploadBytes), nil)
		if err != nil || res.StatusCode != 200 || !bytes.Contains(body, []byte(testbed.PageSum(uploadBytes))) {
			s.wrong("%s to %s: %v %v %s", dialect, upstream, res, err, body)
		}
	}
	s.assertNoDirect()
}
