package caddymodule

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestSideBySideBodies gets a small body that decodes into a large one, for a client that asks for no coding.
func TestSideBySideBodies(t *testing.T) {
	const inflated, bound = 64 << 20, 128 << 10
	t.Run("V15_bomb_untouched", func(t *testing.T) {
		sent := make(map[string][]byte)
		for _, upstream := range []string{"http", "https", "h2c"} {
			sideBySide(t, func(s *side) {
				addr, words := upstream+"://"+s.b.origin.Plain, ""
				if upstream == "https" {
					addr, words = "https://"+s.b.origin.TLS, s.trust()
				}
				c := startCaddy(s.t, s.site(addr, "", words))
				for _, dialect := range s.dialects() {
					for _, coding := range codingsOf(upstream == "https" && dialect == "http") {
						if sent[coding] == nil {
							sent[coding] = s.b.fetch("/bomb/" + coding + "?n=16MiB")
						}
						res, body, err := c.do("GET", "/"+dialect+"/bomb/"+coding+"?n=16MiB", nil, nil)
						switch {
						case err != nil:
							s.wrong("%s, %s: %v", dialect, coding, err)
						case res.Header.Get("Content-Encoding") != coding || len(body) > bound || !bytes.Equal(body, sent[coding]):
							s.wrong("%s, %s: Content-Encoding %q and %d bytes", dialect, coding, res.Header.Get("Content-Encoding"), len(body))
						}
					}
				}
				for _, r := range s.b.origin.Requests() {
					if offer, ok := r.Header["Accept-Encoding"]; ok && r.Header.Get("X-Forwarded-For") != "" {
						s.wrong("the origin was offered %q", offer)
						break
					}
				}
			})
		}
	})
	t.Run("V15_bomb_decoded", func(t *testing.T) {
		s := newSide(t, "tunnel")
		c := startCaddy(t, s.site("https://"+s.b.origin.TLS, "", s.trust()+"decode\nmax_body_bytes 1MiB")+
			"handle_path /default/* {\nreverse_proxy https://"+s.b.origin.TLS+" {\n"+s.through(s.proxies["http"], s.trust()+"decode")+"\n}\n}")
		for path, limit := range map[string]int{"/http": 1 << 20, "/https": 1 << 20, "/socks5": 1 << 20, "/h2": 1 << 20, "/default": 32 << 20} {
			for _, coding := range codingsOf(path == "/http") {
				res, err := c.client().Get(c.url + path + "/bomb/" + coding)
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, res.Body)
				res.Body.Close()
				refused := res.StatusCode == http.StatusBadGateway && n == 0
				if !refused && err == nil || n > int64(limit) || n >= inflated {
					t.Errorf("%s, %s: status %d and %d bytes, %v", path, coding, res.StatusCode, n, err)
				}
			}
		}
		if !strings.Contains(c.logs(), `"limit":1048576`) {
			t.Error("the cap is not logged")
		}
	})
}

// codingsOf are those that are tried on a way: making a bomb takes longer than all else.
func codingsOf(every bool) []string {
	if every {
		return allowedCodings
	}
	return []string{"gzip"}
}

// fetch gets a body from the origin itself.
func (b *bed) fetch(path string) []byte {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), "GET", "http://"+b.origin.Plain+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}

// TestSideBySideSessions opens three connections one after the other: the later ones resume the first one's TLS session.
func TestSideBySideSessions(t *testing.T) {
	for _, tt := range []struct{ name, words string }{
		{"V17_keepalive_off", "keepalive off"},
		{"V17_connections_that_went", ""},
		{"V17_HTTP_1", "versions 1.1\nkeepalive off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sideBySide(t, func(s *side) {
				c := startCaddy(s.t, s.site("https://"+s.b.origin.TLS, "", s.trust()+tt.words))
				for _, dialect := range s.dialects() {
					before := s.b.origin.Accepted()
					for i := range 3 {
						if saw := s.seen(c, dialect, nil); saw.Resumed != (i > 0) {
							s.wrong("%s, connection %d: resumed %v", dialect, i+1, saw.Resumed)
						}
						s.b.origin.DropConns()
					}
					if n := s.b.origin.Accepted() - before; n != 3 {
						s.wrong("%s: %d connections", dialect, n)
					}
				}
			})
		})
	}
	t.Run("V17_TLS_to_proxies", func(t *testing.T) {
		s := newSide(t, "tunnel")
		c := startCaddy(t, s.site("http://"+s.b.origin.Plain, "", "keepalive off"))
		for _, dialect := range []string{"https", "h2"} {
			for range 3 {
				s.get(c, dialect, "/bytes/10", nil)
				s.proxies[dialect].DropConns()
			}
			for i, peer := range s.proxies[dialect].Peers() {
				if peer.TLS.Resumed != (i > 0) {
					t.Errorf("%s, connection %d to the proxy: resumed %v", dialect, i+1, peer.TLS.Resumed)
				}
			}
		}
	})
}
