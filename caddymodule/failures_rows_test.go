package caddymodule

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A failure is a proxy that opens no tunnel, and what is to come of a request that is sent through it. Its name is the
// proxy's, and the first element of its path.
type failure struct {
	name        string
	url         string
	words       string // in the proxy's block
	code, stage string
	status      int
	attempts    func() int64 // how often the proxy was asked so far; nil: cannot be told
}

// The marks of what a proxy says, of which nothing may reach a client.
const (
	leakHeader = "X-Leak"
	leakCookie = "leak=cookie"
	leakBody   = "leak of the proxy's page"
)

// failures starts every kind of proxy that does not do its job. Each is one row.
func (b *bed) failures() []failure {
	const short = "tunnel_timeout 400ms"
	trust := "tls_trust_pool file " + b.proxyCA + "\n"
	login := fmt.Sprintf("auth basic %s %s\n", bedUser, bedPassword)
	answered := http.Header{leakHeader: {"1"}, "Set-Cookie": {leakCookie}, "Proxy-Authenticate": {`Basic realm="leak"`}}

	var rows []failure
	add := func(name, url, words, code, stage string, status int) {
		rows = append(rows, failure{name: name, url: url, words: words, code: code, stage: stage, status: status})
	}
	bad := func(name string, dialect testbed.Dialect, m testbed.Misbehave, words, code, stage string, status int) {
		if dialect == testbed.HTTPS || dialect == testbed.H2 {
			words += trust
		}
		p := b.proxy(testbed.ProxyConfig{Dialect: dialect, Authority: b.proxies["https"].Authority(), Misbehave: m})
		add(name, p.URL(), words+login, code, stage, status)
		rows[len(rows)-1].attempts = p.Accepted
		if dialect == testbed.H2 { // one connection carries all tunnels, and whoever wants one waits for it
			rows[len(rows)-1].attempts = func() int64 { return int64(len(p.Seen())) }
		}
		if dialect == testbed.H2 && stage == "tls" {
			rows[len(rows)-1].attempts = nil
		}
	}
	for _, dialect := range []string{"http", "https", "socks5", "h2"} {
		add("down-"+dialect, dialect+"://"+closedAddr(b.t), trustFor(dialect, trust)+login, "proxy_dial_refused", "dial", 502)
	}
	add("no-socket", "http://unix/"+filepath.Join(b.dir, "absent.sock"), "", "proxy_dial_failed", "dial", 502)
	add("unresolved", "http://proxy.invalid:3128", login, "proxy_name_unresolved", "dial", 502)
	if addr := blackhole(b.t); addr != "" {
		add("blackhole-http", "http://"+addr, login, "proxy_dial_timeout", "dial", 504)
		add("blackhole-socks", "socks5://"+addr, login, "proxy_dial_timeout", "dial", 504)
	}

	bad("silent-http", testbed.HTTP, testbed.Misbehave{Silent: testbed.AtRequest}, short+"\n", "proxy_tunnel_timeout", "connect", 504)
	bad("silent-https-tls", testbed.HTTPS, testbed.Misbehave{Silent: testbed.AtAccept}, short+"\n", "proxy_tls_timeout", "tls", 504)
	bad("silent-https", testbed.HTTPS, testbed.Misbehave{Silent: testbed.AtRequest}, short+"\n", "proxy_tunnel_timeout", "connect", 504)
	bad("silent-socks-greeting", testbed.SOCKS5, testbed.Misbehave{Silent: testbed.AtGreeting}, short+"\n", "proxy_tunnel_timeout", "connect", 504)
	bad("silent-socks", testbed.SOCKS5, testbed.Misbehave{Silent: testbed.AtRequest}, short+"\n", "proxy_tunnel_timeout", "connect", 504)
	bad("silent-h2", testbed.H2, testbed.Misbehave{Silent: testbed.AtRequest}, short+"\n", "proxy_tunnel_timeout", "connect", 504)

	for _, dialect := range []testbed.Dialect{testbed.HTTP, testbed.HTTPS, testbed.H2} {
		for status, code := range map[int]string{
			403: "proxy_connect_refused", 404: "proxy_connect_refused", 407: "proxy_auth_refused", 302: "proxy_connect_refused",
			502: "proxy_connect_refused", 503: "proxy_connect_refused", 504: "proxy_connect_refused",
		} {
			want := 502
			if status == 504 {
				want = 504
			}
			bad(fmt.Sprintf("%s-%d", dialect, status), dialect, testbed.Misbehave{Status: status, Header: answered, Body: leakBody}, "", code, "connect", want)
		}
	}
	for reply, code := range map[byte]string{
		1: "socks_general_failure", 2: "socks_not_allowed", 3: "socks_network_unreachable", 4: "socks_host_unreachable",
		5: "socks_connection_refused", 6: "socks_ttl_expired", 7: "socks_command_unsupported", 8: "socks_address_unsupported", 99: "socks_reply_unknown",
	} {
		want := 502
		if reply == 6 {
			want = 504
		}
		bad("socks-"+strconv.Itoa(int(reply)), testbed.SOCKS5, testbed.Misbehave{SOCKSReply: reply}, "", code, "connect", want)
	}

	bad("closes-http", testbed.HTTP, testbed.Misbehave{Close: testbed.AtAccept}, "", "proxy_closed", "connect", 502)
	bad("closes-http-asked", testbed.HTTP, testbed.Misbehave{Close: testbed.AtRequest}, "", "proxy_closed", "connect", 502)
	bad("closes-https-tls", testbed.HTTPS, testbed.Misbehave{Close: testbed.AtAccept}, "", "proxy_tls_closed", "tls", 502)
	bad("closes-https", testbed.HTTPS, testbed.Misbehave{Close: testbed.AtGreeting}, "", "proxy_closed", "connect", 502)
	bad("closes-socks", testbed.SOCKS5, testbed.Misbehave{Close: testbed.AtGreeting}, "", "proxy_closed", "connect", 502)
	bad("closes-socks-asked", testbed.SOCKS5, testbed.Misbehave{Close: testbed.AtRequest}, "", "proxy_closed", "connect", 502)
	bad("resets-h2", testbed.H2, testbed.Misbehave{Close: testbed.AtRequest}, "", "proxy_protocol_error", "connect", 502)

	garbage := testbed.Misbehave{Garbage: []byte("SSH-2.0-OpenSSH_10.0\r\n" + leakBody + "\r\n")}
	page := testbed.Misbehave{Garbage: []byte("HTTP/1.1 200 OK\r\n" + leakHeader + ": 1\r\n\r\n" + leakBody)}
	bad("garbage-http", testbed.HTTP, garbage, "", "proxy_not_http", "connect", 502)
	bad("garbage-https", testbed.HTTPS, garbage, "", "proxy_not_tls", "tls", 502)
	bad("garbage-h2", testbed.H2, garbage, "", "proxy_not_tls", "tls", 502)
	bad("garbage-socks", testbed.SOCKS5, garbage, "", "proxy_not_socks", "connect", 502)
	bad("http-from-socks", testbed.SOCKS5, page, "", "proxy_not_socks", "connect", 502)
	bad("http-from-https", testbed.HTTPS, page, "", "proxy_not_tls", "tls", 502)
	bad("socks-from-http", testbed.HTTP, testbed.Misbehave{Garbage: []byte{5, 0}}, "", "proxy_not_http", "connect", 502)
	bad("tls-from-http", testbed.HTTP, testbed.Misbehave{Garbage: []byte{0x15, 3, 3, 0, 2, 2, 70}}, "", "proxy_not_http", "connect", 502)
	bad("flood-field", testbed.HTTP, testbed.Misbehave{Flood: testbed.FloodField}, "", "proxy_reply_too_large", "connect", 502)
	bad("flood-fields", testbed.HTTP, testbed.Misbehave{Flood: testbed.FloodFields}, "", "proxy_reply_too_large", "connect", 502)
	bad("flood-interim", testbed.HTTPS, testbed.Misbehave{Flood: testbed.FloodInterim}, "", "proxy_reply_too_large", "connect", 502)
	bad("socks-odd-method", testbed.SOCKS5, testbed.Misbehave{RawMethod: []byte{5, 1}}, "", "proxy_reply_malformed", "connect", 502)

	// The proxies of the bed itself, which do their job for those who ask as they should.
	add("no-login", b.proxies["https"].URL(), trust, "proxy_auth_required", "connect", 502)
	add("no-login-socks", b.proxies["socks5"].URL(), "", "proxy_auth_required", "connect", 502)
	add("bad-login", b.proxies["https"].URL(), trust+"auth basic other "+bedPassword+"\n", "proxy_auth_refused", "connect", 502)
	add("bad-login-socks", b.proxies["socks5"].URL(), "auth basic other "+bedPassword+"\n", "proxy_auth_refused", "connect", 502)
	add("untrusted", b.proxies["https"].URL(), login, "proxy_cert_untrusted", "tls", 502)
	add("untrusted-h2", b.proxies["h2"].URL(), login+"tls_trust_pool file "+b.originCA+"\n", "proxy_cert_untrusted", "tls", 502)
	add("misnamed", b.proxies["https"].URL(), login+trust+"tls_server_name other.test\n", "proxy_cert_name_mismatch", "tls", 502)
	add("expired", b.expiredProxy().URL(), login+trust, "proxy_cert_expired", "tls", 502)
	add("no-h2", "h2://"+b.proxies["https"].Addr, login+trust, "proxy_protocol_error", "tls", 502)
	add("tls-to-plain", "https://"+b.proxies["http"].Addr, login+trust, "proxy_not_tls", "tls", 502)
	add("socks-to-http", "socks5://"+b.proxies["http"].Addr, short+"\n", "proxy_tunnel_timeout", "connect", 504)
	add("http-to-socks", "http://"+b.proxies["socks5"].Addr, login, "proxy_closed", "connect", 502)
	return rows
}

func trustFor(dialect, trust string) string {
	if dialect == "https" || dialect == "h2" {
		return trust
	}
	return ""
}

// expiredProxy has a certificate that was good once.
func (b *bed) expiredProxy() *testbed.Proxy {
	b.t.Helper()
	authority := b.proxies["https"].Authority()
	cert, err := authority.Issue(testbed.CertRequest{
		CommonName: "expired", Names: []string{"127.0.0.1"}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.proxy(testbed.ProxyConfig{
		Dialect: testbed.HTTPS, Authority: authority,
		ConfigureTLS: func(cfg *tls.Config) { cfg.Certificates = []tls.Certificate{cert} },
	})
}
