package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/tlsuser"
)

func TestConnectReply(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n\r\n"
	tests := map[string]struct {
		answer []string
		code   Code // empty: the tunnel opens, and begins with first
		status int
		first  string
	}{
		"plain":                           {answer: []string{ok}},
		"C01_chunked":                     {answer: []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab"}, first: "4\r\nab"},
		"C01_length":                      {answer: []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcdef"}, first: "abcdef"},
		"C01_two_lengths":                 {answer: []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcdef"}, first: "abcdef"},
		"C02_first_bytes_in_same_segment": {answer: []string{ok + "hello world"}, first: "hello world"},
		"C02_more_than_a_buffer":          {answer: []string{ok + strings.Repeat("x", 100_000)}, first: strings.Repeat("x", 100_000)},
		"C03_bytewise":                    {answer: bytewise(ok + "SSH-2.0"), first: "SSH-2.0"},
		"C03_last_line_feed_alone":        {answer: []string{"HTTP/1.1 200 OK\r\nX: y\r\n\r", "\n", "z"}, first: "z"},
		"bare_line_feeds":                 {answer: []string{"HTTP/1.1 200 OK\nX: y\n\nz"}, first: "z"},
		"C04_201":                         {answer: []string{"HTTP/1.1 201 Created\r\n\r\n"}},
		"C04_204":                         {answer: []string{"HTTP/1.1 204 No Content\r\n\r\nx"}, first: "x"},
		"C04_299":                         {answer: []string{"HTTP/1.1 299 Odd\r\n\r\n"}},
		"C15_HTTP_1.0":                    {answer: []string{"HTTP/1.0 200 Connection established\r\n\r\n"}},
		"C15_no_reason":                   {answer: []string{"HTTP/1.1 200\r\n\r\n"}},
		"C15_empty_reason":                {answer: []string{"HTTP/1.1 200 \r\n\r\n"}},
		"V18_interim_then_200":            {answer: []string{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "z"}, first: "z"},
		"interim_replies_bytewise":        {answer: bytewise("HTTP/1.1 102 Processing\r\n\r\n" + ok + "z"), first: "z"},
		"any_field":                       {answer: []string{"HTTP/1.1 200 OK\r\nno colon\r\n: x\r\n folded\r\n\r\nz"}, first: "z"},
		"head_of_32_KiB":                  {answer: []string{headOf(maxHead), "z"}, first: "z"},

		"C06_302":                    {answer: []string{"HTTP/1.1 302 Found\r\nLocation: http://evil/\r\n\r\n"}, code: ProxyConnectRefused, status: 302},
		"C06_403":                    {answer: []string{"HTTP/1.1 403 Forbidden\r\nSet-Cookie: a=b\r\nContent-Length: 4\r\n\r\n<p/>"}, code: ProxyConnectRefused, status: 403},
		"C07_401":                    {answer: []string{"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\n\r\n"}, code: ProxyConnectRefused, status: 401},
		"C08_407_cut":                {answer: []string{"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic\r\n"}, code: ProxyAuthRequired, status: 407},
		"C09_407_length_and_chunks":  {answer: []string{"HTTP/1.1 407 Auth\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"}, code: ProxyAuthRequired, status: 407},
		"101":                        {answer: []string{"HTTP/1.1 101 Switching Protocols\r\n\r\n"}, code: ProxyConnectRefused, status: 101},
		"502":                        {answer: []string{"HTTP/1.1 502 Bad Gateway\r\n\r\n"}, code: ProxyConnectRefused, status: 502},
		"999":                        {answer: []string{"HTTP/1.1 999 \r\n\r\n"}, code: ProxyConnectRefused, status: 999},
		"after_an_interim_reply":     {answer: []string{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 504 Timeout\r\n\r\n"}, code: ProxyConnectRefused, status: 504},
		"C11_HTML":                   {answer: []string{"<html><h1>It works</h1>"}, code: ProxyNotHTTP},
		"C11_TLS":                    {answer: []string{"\x15\x03\x01\x00\x02\x02\x16"}, code: ProxyNotHTTP},
		"C11_SOCKS":                  {answer: []string{"\x05\xff"}, code: ProxyNotHTTP},
		"C11_SOCKS4":                 {answer: []string{"\x00\x5b"}, code: ProxyNotHTTP},
		"C11_banner":                 {answer: []string{"SSH-2.0-OpenSSH\r\n"}, code: ProxyNotHTTP},
		"nonsense_behind_an_interim": {answer: []string{"HTTP/1.1 100 Continue\r\n\r\nHello"}, code: ProxyNotHTTP},
		"HTTP_2":                     {answer: []string{"HTTP/2 200\r\n\r\n"}, code: ProxyNotHTTP},
		"two_digits":                 {answer: []string{"HTTP/1.1 20\r\n\r\n"}, code: ProxyReplyMalformed},
		"four_digits":                {answer: []string{"HTTP/1.1 2000 OK\r\n\r\n"}, code: ProxyReplyMalformed},
		"no_digits":                  {answer: []string{"HTTP/1.1 OK!\r\n\r\n"}, code: ProxyReplyMalformed},
		"sign":                       {answer: []string{"HTTP/1.1 +20 OK\r\n\r\n"}, code: ProxyReplyMalformed},
		"status_099":                 {answer: []string{"HTTP/1.1 099 OK\r\n\r\n"}, code: ProxyReplyMalformed},
		"minor_version":              {answer: []string{"HTTP/1.x 200 OK\r\n\r\n"}, code: ProxyReplyMalformed},
		"head_over_32_KiB":           {answer: []string{headOf(maxHead + 1)}, code: ProxyReplyTooLarge},
		"C13_one_huge_field":         {answer: []string{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20)}, code: ProxyReplyTooLarge},
		"C13_many_fields":            {answer: []string{"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<17)}, code: ProxyReplyTooLarge},
		"C13_many_interim_replies":   {answer: []string{strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1<<15)}, code: ProxyReplyTooLarge},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := listen(t, func(conn net.Conn) {
				httpScript(tt.answer...)(conn)
				conn.(*net.TCPConn).CloseWrite()
			})
			conn, err := dial(Hop{Dialect: HTTP, Addr: p.addr})
			if tt.code != "" {
				if e := wantCode(t, err, tt.code); e.Status != tt.status || conn != nil || e.Stage != StageConnect {
					t.Errorf("status %d at %s, conn %v; want %d", e.Status, e.Stage, conn, tt.status)
				}
				p.awaitClosed(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got, err := io.ReadAll(conn); err != nil || string(got) != tt.first {
				t.Errorf("the tunnel begins with %.40q (%d bytes, %v), want %.40q", got, len(got), err, tt.first)
			}
		})
	}
}

// headOf is a reply's head of n bytes.
func headOf(n int) string {
	const begin, end = "HTTP/1.1 200 OK\r\nX: ", "\r\n\r\n"
	return begin + strings.Repeat("x", n-len(begin)-len(end)) + end
}

func TestProxyThatCloses(t *testing.T) {
	for name, answer := range map[string]string{"C10_at_once": "", "in_the_status": "HTTP/1.1 20", "in_the_head": "HTTP/1.1 200 OK\r\nX: y\r\n"} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, func(conn net.Conn) {
				httpScript(answer)(conn)
				conn.Close()
			})
			_, err := dial(Hop{Dialect: HTTP, Addr: p.addr})
			wantCode(t, err, ProxyClosed)
		})
	}
}

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

// C26: nothing may follow the request before the tunnel is open.
func TestC26_NothingIsSentEarly(t *testing.T) {
	for _, dialect := range []testbed.Dialect{testbed.HTTP, testbed.HTTPS, testbed.SOCKS5} {
		t.Run(string(dialect), func(t *testing.T) {
			p := startProxy(t, testbed.ProxyConfig{Dialect: dialect})
			conn, err := (&Dialer{Hops: []Hop{hopTo(p)}}).DialContext(context.Background(), "tcp", startEcho(t, ""))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			wantEcho(t, conn, "", "x")
			if p.Seen()[0].Early {
				t.Error("bytes came before the answer")
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

func TestReadReplyMakesNoFuss(t *testing.T) {
	const reply = "HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest"
	for name, r := range map[string]io.Reader{
		"error_with_the_bytes": iotest.DataErrReader(strings.NewReader(reply)),
		"empty_reads":          &lazy{r: strings.NewReader(reply)},
	} {
		status, behind, err := readReply(r)
		if status != 200 || err != nil || !bytes.HasPrefix([]byte("rest"), behind) {
			t.Errorf("%s: %d, %q, %v", name, status, behind, err)
		}
	}
	if _, _, err := readReply(nothing{}); err != io.ErrNoProgress {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

// lazy gives a byte every other read.
type lazy struct {
	r  io.Reader
	on bool
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.on = !l.on; l.on {
		return 0, nil
	}
	return l.r.Read(p[:1])
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
