package tunnel

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/tlsuser"
)

func TestConnectRequest(t *testing.T) {
	tests := map[string]struct {
		hop    Hop
		target string
		want   string
	}{
		"C18_nothing_else": {Hop{}, "origin.test:80", "CONNECT origin.test:80 HTTP/1.1\r\nHost: origin.test:80\r\n\r\n"},
		"C20_IPv6":         {Hop{}, "[2001:db8::1]:443", "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n"},
		"C28_login": {Hop{Auth: &Auth{"user", "p:a@s/s%ü"}}, "o:1",
			"CONNECT o:1 HTTP/1.1\r\nHost: o:1\r\nProxy-Authorization: Basic dXNlcjpwOmFAcy9zJcO8\r\n\r\n"},
		"C28_no_password": {Hop{Auth: &Auth{Username: "user"}}, "o:1", "CONNECT o:1 HTTP/1.1\r\nHost: o:1\r\nProxy-Authorization: Basic dXNlcjo=\r\n\r\n"},
		"C23_fields": {Hop{Header: http.Header{"X-Team": {"web", "ops"}, "Proxy-Authorization": {"Bearer t"}}}, "o:1",
			"CONNECT o:1 HTTP/1.1\r\nHost: o:1\r\nProxy-Authorization: Bearer t\r\nX-Team: web\r\nX-Team: ops\r\n\r\n"},
		"name_in_Unicode": {Hop{}, "bücher.example:443", "CONNECT xn--bcher-kva.example:443 HTTP/1.1\r\nHost: xn--bcher-kva.example:443\r\n\r\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			p := listen(t, func(conn net.Conn) {
				got <- readHead(bufio.NewReader(conn))
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			})
			tt.hop.Dialect, tt.hop.Addr = HTTP, p.addr
			conn, err := (&Dialer{Hops: []Hop{tt.hop}}).DialContext(context.Background(), "tcp", tt.target)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if request := <-got; request != tt.want {
				t.Errorf("request:\n%q\nwant:\n%q", request, tt.want)
			}
		})
	}
}

func TestProxyLogin(t *testing.T) {
	for _, dialect := range proxied {
		t.Run(string(dialect), func(t *testing.T) {
			p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Username: "user", Password: "secret"})
			target := startEcho(t, "")
			try := func(auth *Auth) error {
				hop := hopTo(p)
				hop.Auth = auth
				conn, err := (&Dialer{Hops: []Hop{hop}}).DialContext(context.Background(), "tcp", target)
				if err == nil {
					conn.Close()
				}
				return err
			}
			if err := try(&Auth{"user", "secret"}); err != nil {
				t.Error(err)
			}
			wantCode(t, try(&Auth{"user", "wrong-secret"}), ProxyAuthRefused)
			wantCode(t, try(nil), ProxyAuthRequired)
		})
	}
}

func TestHTTPSChecksWhatIsNegotiated(t *testing.T) {
	p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.HTTPS, ALPN: []string{"h2", "http/1.1"}})
	target := startEcho(t, "")
	hop := hopTo(p)
	conn, err := (&Dialer{Hops: []Hop{hop}}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		t.Fatalf("V06: %v", err)
	}
	conn.Close()
	hop.TLS.NextProtos = []string{"h2"}
	_, err = dial(hop)
	wantCode(t, err, ProxyProtocolError)

	plain := startProxy(t, testbed.ProxyConfig{Dialect: testbed.HTTPS, ALPN: []string{}})
	hop = hopTo(plain)
	hop.Dialect = H2
	_, err = dial(hop)
	wantCode(t, err, ProxyProtocolError)
}

func TestTLSToProxyFails(t *testing.T) {
	plain := listen(t, func(conn net.Conn) {
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	for _, dialect := range []Dialect{HTTPS, H2} {
		p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect)})
		for name, tt := range map[string]struct {
			addr string
			tls  *tlsuser.Config
			want Code
		}{
			"untrusted":  {p.Addr, nil, "proxy_cert_untrusted"},
			"other_name": {p.Addr, &tlsuser.Config{RootCAs: p.CA(), ServerName: "other.test"}, "proxy_cert_name_mismatch"},
			"not_TLS":    {plain.addr, nil, "proxy_not_tls"},
		} {
			t.Run(string(dialect)+"/"+name, func(t *testing.T) {
				_, err := dial(Hop{Dialect: dialect, Addr: tt.addr, TLS: tt.tls})
				if e := wantCode(t, err, tt.want); e.Stage != StageTLS {
					t.Errorf("stage = %s", e.Stage)
				}
			})
		}
	}
}
