package tunnel

import (
	"context"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestMismatch has peers that are not what the scheme says, and go on talking for as long as somebody listens. The error says
// what they are likely to be, and what to write.
func TestMismatch(t *testing.T) {
	const (
		ask   = "-> head \"CONNECT \"\n"
		hello = "-> 16 03 01\n-> 2 bytes\n"
		greet = "-> 05 01 00\n"
		end   = "\n-> rest"
	)
	for name, tt := range map[string]struct {
		dialect Dialect
		script  string
		code    Code
		says    string
	}{
		"C11_http_to_web_page":        {HTTP, ask + `<- forever "<html><h1>It works</h1>"`, ProxyNotHTTP, "a document"},
		"C11_http_to_SOCKS5":          {HTTP, ask + `<- 05 ff` + end, ProxyNotHTTP, "socks5://"},
		"C11_http_to_SOCKS4":          {HTTP, ask + `<- 00 5b 00 00 00 00 00 00` + end, ProxyNotHTTP, "socks5://"},
		"C11_http_to_TLS":             {HTTP, ask + `<- 15 03 01 00 02 02 16` + end, ProxyNotHTTP, "https:// or h2://"},
		"C11_http_to_HTTP_2":          {HTTP, ask + `<- 00 00 06 04 00 00 00 00 00 00 03 00 00 00 64` + end, ProxyNotHTTP, "h2://"},
		"C11_http_to_SSH":             {HTTP, ask + `<- forever "SSH-2.0-OpenSSH\r\n"`, ProxyNotHTTP, "not HTTP/1.1"},
		"C11_http_to_later_HTTP":      {HTTP, ask + `<- "HTTP/2 200\r\n\r\n"` + end, ProxyNotHTTP, "not HTTP/1.1"},
		"C11_http_to_blank_lines":     {HTTP, ask + `<- forever "\r\n"`, ProxyNotHTTP, "not HTTP/1.1"},
		"C11_http_interim_nonsense":   {HTTP, ask + `<- "HTTP/1.1 100 Continue\r\n\r\nHello"` + end, ProxyNotHTTP, "not HTTP/1.1"},
		"C11_https_to_web_page_in_it": {HTTPS, "tls http/1.1\n" + ask + `<- forever "<html>"`, ProxyNotHTTP, "a document"},
		"C11_https_to_HTTP":           {HTTPS, hello + `<- "HTTP/1.1 400 Bad Request\r\n\r\n"` + end, "proxy_not_tls", "http:// or socks5://"},
		"C11_https_to_SOCKS5":         {HTTPS, hello + `<- 05 ff 00 00 00 00` + end, "proxy_not_tls", "http:// or socks5://"},
		"C11_https_to_HTTP_2":         {HTTPS, hello + `<- 00 00 06 04 00 00 00 00 00 00 03 00 00 00 64` + end, "proxy_not_tls", "http:// or socks5://"},
		"C11_h2_to_HTTP":              {H2, hello + `<- "HTTP/1.1 400 Bad Request\r\n\r\n"` + end, "proxy_not_tls", "http:// or socks5://"},
		"C11_h2_without_ALPN":         {H2, "tls\n" + end, ProxyProtocolError, "https://"},
		"C11_h2_that_is_none":         {H2, "tls h2\n" + `<- forever "HTTP/1.1 400 Bad Request\r\n\r\n"`, ProxyProtocolError, "https://"},
		"C11_socks5_to_HTTP":          {SOCKS5, greet + `<- forever "HTTP/1.1 400 Bad Request\r\n"`, ProxyNotSOCKS, "http://"},
		"C11_socks5_to_web_page":      {SOCKS5, greet + `<- forever "<html>"`, ProxyNotSOCKS, ""},
		"C11_socks5_to_TLS":           {SOCKS5, greet + `<- 15 03 01 00 02 02 16` + end, ProxyNotSOCKS, "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			hop, sockets := scriptHop(tt.dialect), new(sockets)
			peer := script.Config{TLS: scriptTLS(t)}.Listen(t, tt.script)
			hop.Addr = peer.Addr
			d := &Dialer{Hops: []Hop{hop}, Dial: sockets.dial, PullBytes: 1 << 10}
			conn, err := d.DialContext(context.Background(), "tcp", "origin.test:443")
			if wantCode(t, err, tt.code); conn != nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("conn %v, error %v; want %q in it", conn, err, tt.says)
			}
			if strings.Contains(err.Error(), "Bad Request") {
				t.Errorf("the error quotes the peer: %v", err)
			}
			peer.Wait()
			if n := sockets.read.Load(); n > 16<<10 {
				t.Errorf("%d bytes read", n)
			}
		})
	}
	t.Run("C11_h2_to_HTTP_1_only", func(t *testing.T) {
		p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.HTTPS})
		hop := hopTo(p)
		hop.Dialect = H2
		_, err := dial(hop)
		if e := wantCode(t, err, ProxyProtocolError); e.Stage != StageTLS || !strings.Contains(err.Error(), "https://") {
			t.Errorf("at %s: %v", e.Stage, err)
		}
		eventually(t, "its connection is closed", func() bool { return p.Conns() == 0 })
	})
}
