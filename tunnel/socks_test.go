package tunnel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// socksScript reads what a client says in steps of known sizes, and answers each. got is told all that was read.
func socksScript(got chan<- []byte, steps ...socksStep) func(net.Conn) {
	return func(conn net.Conn) {
		var all []byte
		for _, step := range steps {
			buf := make([]byte, step.read)
			n, err := io.ReadFull(conn, buf)
			all = append(all, buf[:n]...)
			if err != nil {
				break
			}
			for _, piece := range step.answer {
				io.WriteString(conn, piece)
			}
		}
		if got != nil {
			got <- all
		}
	}
}

type socksStep struct {
	read   int
	answer []string
}

// The request for origin.test:443, and the good answers.
const (
	askOrigin  = "\x05\x01\x00\x03\x0borigin.test\x01\xbb"
	noLogin    = "\x05\x00"
	wantsLogin = "\x05\x02"
	okIPv4     = "\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"
)

func TestSOCKSReply(t *testing.T) {
	name := func(n int) string {
		return "\x05\x00\x00\x03" + string(rune(n))[:1] + strings.Repeat("n", n) + "\x00\x50"
	}
	longest := "\x05\x00\x00\x03\xff" + strings.Repeat("n", 255) + "\x00\x50"
	ipv6 := "\x05\x00\x00\x04" + strings.Repeat("\x00", 16) + "\x00\x50"
	tests := map[string]struct {
		greeting, reply []string
		first           string // behind the reply
		code            Code
		answer          byte
	}{
		"S02_IPv4":            {reply: []string{okIPv4}},
		"S01_IPv6":            {reply: []string{ipv6 + "z"}, first: "z"},
		"S01_name_of_0":       {reply: []string{name(0) + "z"}, first: "z"},
		"S01_name_of_1":       {reply: []string{name(1) + "z"}, first: "z"},
		"S01_name_of_2":       {reply: []string{name(2) + "z"}, first: "z"},
		"S01_name_of_255":     {reply: []string{longest + "z"}, first: "z"},
		"S04_bytewise":        {greeting: bytewise(noLogin), reply: bytewise(okIPv4 + "hello"), first: "hello"},
		"S04_coalesced":       {greeting: []string{noLogin + okIPv4 + "hello"}, first: "hello"},
		"reserved_byte":       {reply: []string{"\x05\x00\x7f\x01\x00\x00\x00\x00\x00\x00"}},
		"S15_reply_1":         {reply: []string{"\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00"}, code: SOCKSGeneralFailure, answer: 1},
		"S15_reply_2":         {reply: []string{"\x05\x02\x00\x01"}, code: SOCKSNotAllowed, answer: 2},
		"S15_reply_3":         {reply: []string{"\x05\x03"}, code: SOCKSNetworkUnreachable, answer: 3},
		"S15_reply_4":         {reply: []string{"\x05\x04"}, code: SOCKSHostUnreachable, answer: 4},
		"S15_reply_5":         {reply: []string{"\x05\x05"}, code: SOCKSConnectionRefused, answer: 5},
		"S15_reply_6":         {reply: []string{"\x05\x06"}, code: SOCKSTTLExpired, answer: 6},
		"reply_7":             {reply: []string{"\x05\x07"}, code: SOCKSCommandUnsupported, answer: 7},
		"reply_8":             {reply: []string{"\x05\x08"}, code: SOCKSAddressUnsupported, answer: 8},
		"S15_reply_0x5B":      {reply: []string{"\x05\x5b"}, code: SOCKSReplyUnknown, answer: 0x5b},
		"reply's_version":     {reply: []string{"\x04\x00\x00\x01\x00\x00\x00\x00\x00\x00"}, code: ProxyReplyMalformed},
		"reply's_address":     {reply: []string{"\x05\x00\x00\x02\x00\x00\x00\x00\x00\x00"}, code: ProxyReplyMalformed},
		"S05_login_unoffered": {greeting: []string{wantsLogin}, code: ProxyAuthRequired},
		"S05_GSSAPI":          {greeting: []string{"\x05\x01"}, code: ProxyReplyMalformed},
		"S05_version_4":       {greeting: []string{"\x04\x00"}, code: ProxyNotSOCKS},
		"no_method":           {greeting: []string{"\x05\xff"}, code: ProxyAuthRequired},
		"C11_HTTP":            {greeting: []string{"HTTP/1.1 400 Bad Request\r\n\r\n"}, code: ProxyNotSOCKS},
		"C11_TLS":             {greeting: []string{"\x15\x03\x01\x00\x02\x02\x16"}, code: ProxyNotSOCKS},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.greeting == nil {
				tt.greeting = []string{noLogin}
			}
			p := listen(t, func(conn net.Conn) {
				steps := []socksStep{{3, tt.greeting}}
				if tt.code == "" || tt.reply != nil {
					steps = append(steps, socksStep{len(askOrigin), tt.reply})
				}
				socksScript(nil, steps...)(conn)
				if tt.code == "" {
					conn.(*net.TCPConn).CloseWrite() // a refusal leaves the client waiting for more
				}
			})
			conn, err := dial(Hop{Dialect: SOCKS5, Addr: p.addr})
			if tt.code != "" {
				if e := wantCode(t, err, tt.code); e.Reply != tt.answer || e.Stage != StageConnect {
					t.Errorf("reply %d at %s, want %d", e.Reply, e.Stage, tt.answer)
				}
				p.awaitClosed(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got, err := io.ReadAll(conn); err != nil || string(got) != tt.first {
				t.Errorf("the tunnel begins with %q (%v), want %q", got, err, tt.first)
			}
		})
	}
}

// What the client says, against RFC 1928 and RFC 1929.
func TestSOCKSRequest(t *testing.T) {
	long := strings.Repeat("n", 255)
	tests := map[string]struct {
		target  string
		auth    *Auth
		login   string
		request string
	}{
		"S02_name":           {"origin.test:443", nil, "", askOrigin},
		"S08_IPv4":           {"192.0.2.1:80", nil, "", "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50"},
		"S08_IPv6":           {"[2001:db8::1]:80", nil, "", "\x05\x01\x00\x04\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01\x00\x50"},
		"IPv4_in_IPv6":       {"[::ffff:192.0.2.1]:80", nil, "", "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50"},
		"S06_longest_name":   {long + ":80", nil, "", "\x05\x01\x00\x03\xff" + long + "\x00\x50"},
		"S16_login":          {"origin.test:443", &Auth{"user", "p w"}, "\x01\x04user\x03p w", askOrigin},
		"S09_empty_password": {"origin.test:443", &Auth{"user", ""}, "\x01\x04user\x00", askOrigin},
		"longest_login":      {"origin.test:443", &Auth{long, long}, "\x01\xff" + long + "\xff" + long, askOrigin},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := make(chan []byte, 1)
			greeting := "\x05\x01\x00"
			steps := []socksStep{{3, []string{noLogin}}}
			if tt.auth != nil {
				greeting = "\x05\x02\x00\x02"
				steps = []socksStep{{4, []string{wantsLogin}}, {len(tt.login), []string{"\x01\x00"}}}
			}
			p := listen(t, socksScript(got, append(steps, socksStep{len(tt.request), []string{okIPv4}})...))
			hop := Hop{Dialect: SOCKS5, Addr: p.addr, Auth: tt.auth}
			conn, err := (&Dialer{Hops: []Hop{hop}}).DialContext(context.Background(), "tcp", tt.target)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if want := greeting + tt.login + tt.request; string(<-got) != want {
				t.Errorf("the client did not say %q", want)
			}
		})
	}
}

func TestSOCKSLogin(t *testing.T) {
	auth := &Auth{"user", "secret"}
	for name, tt := range map[string]struct {
		greeting, login string
		code            Code
	}{
		"accepted":            {wantsLogin, "\x01\x00", ""},
		"not_wanted":          {noLogin, "", ""},
		"refused":             {wantsLogin, "\x01\x01", ProxyAuthRefused},
		"S16_version_5":       {wantsLogin, "\x05\x00", ProxyReplyMalformed},
		"neither_method":      {"\x05\xff", "", ProxyAuthRefused},
		"method_not_offered":  {"\x05\x03", "", ProxyReplyMalformed},
		"closes_at_the_login": {wantsLogin, "\x01", ProxyClosed},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, func(conn net.Conn) {
				steps := []socksStep{{4, []string{tt.greeting}}}
				if tt.login != "" {
					steps = append(steps, socksStep{len("\x01\x04user\x06secret"), []string{tt.login}})
				}
				if tt.code == "" {
					steps = append(steps, socksStep{len(askOrigin), []string{okIPv4}})
				}
				socksScript(nil, steps...)(conn)
				if tt.code == ProxyClosed {
					conn.Close()
				}
			})
			conn, err := dial(Hop{Dialect: SOCKS5, Addr: p.addr, Auth: auth})
			if tt.code != "" {
				wantCode(t, err, tt.code)
			} else if err != nil {
				t.Fatal(err)
			} else {
				conn.Close()
			}
			p.awaitClosed(t)
		})
	}
}

// S11: whatever the name, this host looks nothing up.
func TestS11_NameGoesToTheProxy(t *testing.T) {
	target := startEcho(t, "")
	for _, dialect := range proxied {
		t.Run(string(dialect), func(t *testing.T) {
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

func TestSOCKSReplyIsReadExactly(t *testing.T) {
	for _, reply := range []string{okIPv4, "\x05\x00\x00\x03\x02ab\x00\x50", "\x05\x05"} {
		r := bytes.NewReader([]byte(reply + "behind"))
		_ = readSOCKSReply(r)
		if rest, _ := io.ReadAll(r); string(rest) != "behind" {
			t.Errorf("of %q: %q is left", reply, rest)
		}
		for n := range len(reply) {
			if err := readSOCKSReply(strings.NewReader(reply[:n])); err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Errorf("%q: %v", reply[:n], err)
			}
		}
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
