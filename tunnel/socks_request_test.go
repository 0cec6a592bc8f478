package tunnel

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestSOCKSRequest holds what the client says against RFC 1928 and RFC 1929.
func TestSOCKSRequest(t *testing.T) {
	long := strings.Repeat("n", 255)
	for name, tt := range map[string]struct {
		target  string
		auth    *Auth
		login   string
		request string
	}{
		"S02_name":            {"origin.test:443", nil, "", askOrigin},
		"S08_IPv4":            {"192.0.2.1:80", nil, "", "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50"},
		"S08_IPv6":            {"[2001:db8::1]:80", nil, "", "\x05\x01\x00\x04\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01\x00\x50"},
		"S08_IPv4_in_IPv6":    {"[::ffff:192.0.2.1]:80", nil, "", "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50"},
		"S08_like_an_address": {"192.0.2.1.:80", nil, "", "\x05\x01\x00\x03\x0a192.0.2.1.\x00\x50"},
		"S06_longest_name":    {long + ":80", nil, "", "\x05\x01\x00\x03\xff" + long + "\x00\x50"},
		"S11_single_label":    {"db:5432", nil, "", "\x05\x01\x00\x03\x02db\x15\x38"},
		"S11_in_Unicode":      {"bücher.test:80", nil, "", "\x05\x01\x00\x03\x12xn--bcher-kva.test\x00\x50"},
		"S16_login":           {"origin.test:443", &Auth{"user", "p w"}, "\x01\x04user\x03p w", askOrigin},
		"S09_empty_password":  {"origin.test:443", &Auth{"user", ""}, "\x01\x04user\x00", askOrigin},
		"S16_any_bytes":       {"origin.test:443", &Auth{"\x00\r\n", ":@%41\xff"}, "\x01\x03\x00\r\n\x06:@%41\xff", askOrigin},
		"S16_longest_login":   {"origin.test:443", &Auth{long, long}, "\x01\xff" + long + "\xff" + long, askOrigin},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("-> % x\n<- % x\n", greetsNone, noLogin)
			if tt.auth != nil {
				text = fmt.Sprintf("-> % x\n<- % x\n-> % x\n<- 01 00\n", greetsLogin, wantsLogin, tt.login)
			}
			peer := script.Listen(t, text+fmt.Sprintf("-> % x\n<- % x\n-> eof", tt.request, okIPv4))
			hop := Hop{Dialect: SOCKS5, Addr: peer.Addr, Auth: tt.auth}
			conn, err := (&Dialer{Hops: []Hop{hop}}).DialContext(context.Background(), "tcp", tt.target)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			peer.Wait()
		})
	}
}

// TestSOCKSLogin has servers that take or refuse a login, or answer it in a version that is not its own.
func TestSOCKSLogin(t *testing.T) {
	const says = "-> 01 04 \"user\" 06 \"secret\"\n"
	for name, tt := range map[string]struct {
		login string // its answer; empty: it is not asked for
		code  Code
	}{
		"S16_accepted":         {"<- 01 00", ""},
		"S16_not_wanted":       {"", ""},
		"S16_refused":          {"<- 01 01", ProxyAuthRefused},
		"S16_refused_with_255": {"<- 01 ff", ProxyAuthRefused},
		"S16_version_5":        {"<- 05 00", ProxyReplyMalformed},
		"S16_version_0":        {"<- 00 00", ProxyReplyMalformed},
		"S16_version_5_and_no": {"<- 05 01", ProxyReplyMalformed},
		"closes_in_the_answer": {"<- 01\nclose", ProxyClosed},
		"closes_at_the_login":  {"close", ProxyClosed},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("-> % x\n", greetsLogin)
			switch {
			case tt.login == "":
				text += "<- 05 00\n"
			default:
				text += "<- 05 02\n" + says + tt.login + "\n"
			}
			if tt.code == "" {
				text += fmt.Sprintf("-> % x\n<- % x\n", askOrigin, okIPv4)
			}
			if tt.code != ProxyClosed {
				text += "-> eof"
			}
			peer := script.Listen(t, text)
			conn, err := dial(Hop{Dialect: SOCKS5, Addr: peer.Addr, Auth: &Auth{"user", "secret"}})
			if tt.code != "" {
				wantCode(t, err, tt.code)
			} else if err != nil {
				t.Fatal(err)
			} else {
				conn.Close()
			}
			peer.Wait()
		})
	}
}

// TestNameGoesToTheProxy asks for a name that only the proxy knows.
func TestNameGoesToTheProxy(t *testing.T) {
	target := startEcho(t, "")
	for name, dialect := range map[string]Dialect{"S11_socks5": SOCKS5, "C19_http": HTTP, "C19_https": HTTPS, "C19_h2": H2} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Hosts: map[string]string{"only-there.invalid:7": target}})
			conn, err := (&Dialer{Hops: []Hop{hopTo(p)}}).DialContext(context.Background(), "tcp", "only-there.invalid:7")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			wantEcho(t, conn, "", "x")
			if got := p.Seen()[0].Target; got != "only-there.invalid:7" {
				t.Errorf("the proxy was asked for %s", got)
			}
		})
	}
}

func ExampleHop_String() {
	fmt.Println(Hop{Dialect: SOCKS5, Addr: "p1.corp.example:1080", Auth: &Auth{"user", "secret"}})
	fmt.Println(Hop{Name: "dr", Dialect: HTTP, Addr: "dr.corp.example:3128"})
	fmt.Println(Auth{"user", "secret"})
	// Output:
	// socks5://p1.corp.example:1080
	// dr
	// [redacted]
}
