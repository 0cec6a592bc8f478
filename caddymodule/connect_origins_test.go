package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestEveryOriginIsTunnelled plays a proxy and, within the tunnel, the origin: a cleartext one, too, gets its request in origin
// form, and the proxy gets nothing but CONNECT.
func TestEveryOriginIsTunnelled(t *testing.T) {
	const (
		ok     = "<- \"HTTP/1.1 200 OK\\r\\n\\r\\n\"\n"
		answer = "<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\ndone\"\n-> eof"
	)
	for name, tt := range map[string]struct {
		upstream, words string
		origin          string // behind the answer to CONNECT
	}{
		"C21_http":     {"http://origin.test", "", "-> head \"GET /page?a=b HTTP/1.1\"\n" + answer},
		"C21_https":    {"https://origin.test", "versions 1.1", "tls http/1.1\n-> head \"GET /page?a=b HTTP/1.1\\r\\nHost: origin.test:443\\r\\n\"\n" + answer},
		"C21_h2c":      {"h2c://origin.test", "", "h2\n-> HEADERS 1 :path=/page?a=b :scheme=http END_STREAM\n<- HEADERS 1 :status=200\n<- DATA 1 \"done\" END_STREAM\n-> rest"},
		"C21_https_h2": {"https://origin.test", "versions 2", "tls h2\nh2\n-> HEADERS 1 :path=/page?a=b :scheme=https :authority=origin.test:443 END_STREAM\n<- HEADERS 1 :status=200\n<- DATA 1 \"done\" END_STREAM\n-> rest"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			for _, dialect := range []string{"http", "https"} {
				via, _ := b.scripted(dialect, ok+tt.origin)
				trust := ""
				if strings.HasPrefix(tt.upstream, "https") {
					trust = "\ntls_trust_pool file " + b.proxyCA
				}
				s := startGuarded(t, pathSite("x", tt.upstream, "", via+trust+"\n"+tt.words))
				if got := string(s.get("/x/page?a=b", 200)); got != "done" {
					t.Errorf("%s: %q", dialect, got)
				}
			}
		})
	}
	for name, tt := range map[string]struct{ upstream, words, begin string }{
		"C21_ws":                  {"http://origin.test", "", ""},
		"C21_wss":                 {"https://origin.test", "", "tls http/1.1\n"},
		"C21_ws_where_h2c_is_set": {"h2c://origin.test", "versions h2c 2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			for _, dialect := range []string{"http", "https"} {
				via, _ := b.scripted(dialect, ok+tt.begin+"-> head \"GET /ws HTTP/1.1\\r\\n\" \"Upgrade: websocket\\r\\n\"\n"+
					"<- \"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n\" \"hello\"\n-> \"ping\"\n<- \"pong\"\nclose")
				trust := ""
				if tt.begin != "" {
					trust = "\ntls_trust_pool file " + b.proxyCA
				}
				s := startGuarded(t, pathSite("x", tt.upstream, "", via+trust))
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprint(conn, "GET /x/ws HTTP/1.1\r\nHost: client.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				r := bufio.NewReader(conn)
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode != 101 {
					t.Fatalf("%s: %v, %v", dialect, res, err)
				}
				io.WriteString(conn, "ping")
				if got, err := io.ReadAll(r); err != nil || string(got) != "hellopong" {
					t.Errorf("%s: %q, %v", dialect, got, err)
				}
				conn.Close()
				s.awaitLogged("handled request")
			}
		})
	}
}
