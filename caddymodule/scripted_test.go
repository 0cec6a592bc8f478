package caddymodule

import (
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// httpDialects are those of CONNECT.
var httpDialects = []string{"http", "https", "h2"}

// scriptConfig is a server's side of TLS, for proxies and for origins within tunnels.
func (b *bed) scriptConfig() script.Config {
	b.t.Helper()
	cert, err := b.proxies["https"].Authority().Issue(testbed.CertRequest{Names: []string{"127.0.0.1", "origin.test"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return script.Config{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}
}

// scripted starts a proxy that plays a script on each connection, each behind what its dialect begins with, up to the request
// for a tunnel. via is the Caddyfile of the way through it.
func (b *bed) scripted(dialect string, scripts ...string) (via string, peer *script.Peer) {
	b.t.Helper()
	begin := map[string]string{
		"http":   "-> head \"CONNECT \"\n",
		"https":  "tls http/1.1\n-> head \"CONNECT \"\n",
		"h2":     "tls h2\nh2\n-> HEADERS 1 :method=CONNECT\n",
		"socks5": "",
	}[dialect]
	all := make([]string, len(scripts))
	for i := range scripts {
		all[i] = begin + scripts[i]
	}
	peer = b.scriptConfig().Listen(b.t, all...)
	return fmt.Sprintf("via {\nproxy %s://%s {\n%s\n}\n}", dialect, peer.Addr, trustFor(dialect, "tls_trust_pool file "+b.proxyCA)), peer
}

// answers is the script of an answer to CONNECT with fields that are a browser's business and, in HTTP/1.1, a body.
func answers(dialect string, status int, field, value string) string {
	if dialect == "h2" {
		return fmt.Sprintf("<- HEADERS 1 :status=%d %s=%q set-cookie=%q x-leak=1 END_STREAM\n-> rest", status, field, value, leakCookie)
	}
	return fmt.Sprintf("<- %q\n-> eof", fmt.Sprintf("HTTP/1.1 %d Leak\r\n%s: %s\r\nSet-Cookie: %s\r\nX-Leak: 1\r\nContent-Length: 4\r\n\r\nleak", status, field, value, leakCookie))
}

// loggedCode checks that n requests failed in all, the last of them with this code.
func (s *server) loggedCode(t *testing.T, code string, n int) {
	t.Helper()
	entries := s.failures()
	if len(entries) != n {
		t.Errorf("%d failures are logged, want %d", len(entries), n)
	}
	if len(entries) > 0 && entries[len(entries)-1]["code"] != code {
		t.Errorf("logged %v, want code %s", entries[len(entries)-1], code)
	}
}
