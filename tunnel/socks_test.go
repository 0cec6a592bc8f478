package tunnel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// The request for origin.test:443, the greetings before it, and the good answers.
const (
	greetsNone  = "\x05\x01\x00"
	greetsLogin = "\x05\x02\x00\x02"
	askOrigin   = "\x05\x01\x00\x03\x0borigin.test\x01\xbb"
	noLogin     = "\x05\x00"
	wantsLogin  = "\x05\x02"
	okIPv4      = "\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"
)

// A socksTalk is a handshake that ends in a tunnel. Each answer is what the server says to the message of the same index, and
// first is what the origin says unasked.
type socksTalk struct {
	auth    *Auth
	says    []string
	answers []string
	first   string
}

// deliveries are scripts in which the server's bytes come in every way that a network may bring them: each answer by
// itself, byte by byte, and all of them before they are asked for, cut in two at every place. Behind them the origin is
// silent until it hears from the client.
func (s socksTalk) deliveries() map[string]string {
	var apart, dribbled, last strings.Builder
	for i, says := range s.says {
		answer := s.answers[i]
		fmt.Fprintf(&apart, "-> % x\n<- % x\n", says, answer)
		fmt.Fprintf(&last, "-> % x\n", says)
		if i == len(s.says)-1 {
			answer += s.first
		}
		fmt.Fprintf(&dribbled, "-> % x\n<- dribble % x\n", says, answer)
		fmt.Fprintf(&last, "<- % x\n", answer)
	}
	if s.first != "" {
		fmt.Fprintf(&apart, "<- % x\n", s.first)
	}
	scripts := map[string]string{"apart": apart.String(), "bytewise": dribbled.String(), "last_with_the_origin's": last.String()}
	all := strings.Join(s.answers, "") + s.first
	asked := fmt.Sprintf("-> % x\n", strings.Join(s.says[1:], ""))
	for cut := range min(len(all), 64) {
		begin := fmt.Sprintf("-> % x\n", s.says[0])
		if cut > 0 {
			begin += fmt.Sprintf("<- % x\n", all[:cut])
		}
		scripts[fmt.Sprintf("at_once_but_for_%d", cut)] = begin + fmt.Sprintf("<- % x\n", all[cut:]) + asked
	}
	for name := range scripts {
		scripts[name] += "-> \"hello\"\n<- \"world\"\n-> eof"
	}
	return scripts
}

// assert plays each delivery, and checks that the tunnel begins where the handshake ends.
func (s socksTalk) assert(t *testing.T) {
	t.Helper()
	for name, text := range s.deliveries() {
		sockets := &sockets{by: script.Dialer(t, text)}
		d := &Dialer{Hops: []Hop{{Dialect: SOCKS5, Addr: "p:1", Auth: s.auth}}, Dial: sockets.dial}
		conn, err := d.DialContext(context.Background(), "tcp", "origin.test:443")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := make([]byte, len(s.first)+len("world"))
		if _, err := io.ReadFull(conn, got[:len(s.first)]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		io.WriteString(conn, "hello")
		if _, err := io.ReadFull(conn, got[len(s.first):]); err != nil || string(got) != s.first+"world" {
			t.Errorf("%s: the tunnel begins with %.40q (%v), want %.40q", name, got, err, s.first+"world")
		}
		conn.Close()
		if n := sockets.open.Load(); n != 0 {
			t.Errorf("%s: %d sockets are open", name, n)
		}
	}
}

// TestSOCKSReply has good replies of every shape: exactly what belongs to them is read, and no more is waited for.
func TestSOCKSReply(t *testing.T) {
	name := func(n byte) string {
		return "\x05\x00\x00\x03" + string([]byte{n}) + strings.Repeat("n", int(n)) + "\x00\x50"
	}
	ipv6 := "\x05\x00\x00\x04" + strings.Repeat("\x00", 16) + "\x00\x50"
	login, ask := "\x01\x04user\x06secret", []string{greetsNone, askOrigin}
	for id, s := range map[string]socksTalk{
		"S01_name_of_0":              {says: ask, answers: []string{noLogin, name(0)}, first: "z"},
		"S01_name_of_1":              {says: ask, answers: []string{noLogin, name(1)}, first: "z"},
		"S01_name_of_2":              {says: ask, answers: []string{noLogin, name(2)}, first: "z"},
		"S01_name_of_255":            {says: ask, answers: []string{noLogin, name(255)}, first: "z"},
		"S01_IPv6":                   {says: ask, answers: []string{noLogin, ipv6}, first: "z"},
		"S01_like_a_reply_behind_it": {says: ask, answers: []string{noLogin, name(0)}, first: okIPv4},
		"S02_IPv4_and_silence":       {says: ask, answers: []string{noLogin, okIPv4}},
		"S02_IPv6_and_silence":       {says: ask, answers: []string{noLogin, ipv6}},
		"S02_name_and_silence":       {says: ask, answers: []string{noLogin, name(11)}},
		"S04_no_login":               {says: ask, answers: []string{noLogin, okIPv4}, first: "SSH-2.0-origin\r\n"},
		"S04_login": {auth: &Auth{"user", "secret"}, says: []string{greetsLogin, login, askOrigin},
			answers: []string{wantsLogin, "\x01\x00", okIPv4}, first: "SSH-2.0-origin\r\n"},
		"S04_many_bytes": {says: ask, answers: []string{noLogin, okIPv4}, first: strings.Repeat("0123456789", 300)},
		"reserved_byte":  {says: ask, answers: []string{noLogin, "\x05\x00\x7f\x01\x00\x00\x00\x00\x00\x00"}},
	} {
		t.Run(id, s.assert)
	}
}

// TestSOCKSRefusal has servers that refuse, or answer what nobody may answer: the client says nothing more and closes, and
// waits for nothing behind the byte that decides.
func TestSOCKSRefusal(t *testing.T) {
	const goesOn = "\x01\x00" + okIPv4 + "hello" // as if the client had said all it could
	auth := &Auth{"user", "secret"}
	for name, tt := range map[string]struct {
		auth   *Auth
		method string // what the greeting is answered with
		reply  string // what the command is answered with; empty: it must not come
		code   Code
		number byte
	}{
		"S05_login_unoffered":          {method: wantsLogin, code: ProxyAuthRequired},
		"S05_GSSAPI":                   {method: "\x05\x01", code: ProxyReplyMalformed},
		"S05_unassigned":               {method: "\x05\x03", code: ProxyReplyMalformed},
		"S05_private":                  {method: "\x05\x80", code: ProxyReplyMalformed},
		"S05_almost_a_refusal":         {method: "\x05\xfe", code: ProxyReplyMalformed},
		"S05_no_acceptable":            {method: "\x05\xff", code: ProxyAuthRequired},
		"S05_version_4":                {method: "\x04\x00", code: ProxyNotSOCKS},
		"S05_version_0":                {method: "\x00\x5a", code: ProxyNotSOCKS},
		"S05_version_1":                {method: "\x01\x00", code: ProxyNotSOCKS},
		"S05_version_6":                {method: "\x06\x00", code: ProxyNotSOCKS},
		"S05_version_4_asks_for_login": {auth: auth, method: "\x04\x02", code: ProxyNotSOCKS},
		"S05_login_but_GSSAPI":         {auth: auth, method: "\x05\x01", code: ProxyReplyMalformed},
		"S05_login_but_unassigned":     {auth: auth, method: "\x05\x03", code: ProxyReplyMalformed},
		"S05_login_but_no_acceptable":  {auth: auth, method: "\x05\xff", code: ProxyAuthRefused},
		"S15_reply_1":                  {reply: "\x05\x01", code: SOCKSGeneralFailure, number: 1},
		"S15_reply_2":                  {reply: "\x05\x02", code: SOCKSNotAllowed, number: 2},
		"S15_reply_3":                  {reply: "\x05\x03", code: SOCKSNetworkUnreachable, number: 3},
		"S15_reply_4":                  {reply: "\x05\x04", code: SOCKSHostUnreachable, number: 4},
		"S15_reply_5":                  {reply: "\x05\x05", code: SOCKSConnectionRefused, number: 5},
		"S15_reply_6":                  {reply: "\x05\x06", code: SOCKSTTLExpired, number: 6},
		"S15_reply_7":                  {reply: "\x05\x07", code: SOCKSCommandUnsupported, number: 7},
		"S15_reply_8":                  {reply: "\x05\x08", code: SOCKSAddressUnsupported, number: 8},
		"S15_reply_9":                  {reply: "\x05\x09", code: SOCKSReplyUnknown, number: 9},
		"S15_reply_0x5B":               {reply: "\x05\x5b", code: SOCKSReplyUnknown, number: 0x5b},
		"S15_reply_0xFF":               {reply: "\x05\xff", code: SOCKSReplyUnknown, number: 0xff},
		"reply_of_version_4":           {reply: "\x04\x00", code: ProxyReplyMalformed},
		"reply_of_version_0":           {reply: "\x00\x5a", code: ProxyReplyMalformed},
		"reply's_address_type":         {reply: "\x05\x00\x00\x02", code: ProxyReplyMalformed},
		"reply's_address_type_0":       {reply: "\x05\x00\x00\x00", code: ProxyReplyMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			greets := greetsNone
			if tt.auth != nil {
				greets = greetsLogin
			}
			for how, text := range map[string]string{
				"short":    "<- % x\n",
				"bytewise": "<- dribble % x\n",
				"goes_on":  "<- % x" + fmt.Sprintf(" % x\n", goesOn),
			} {
				text = fmt.Sprintf(text, tt.method+tt.reply)
				if tt.reply != "" {
					text = fmt.Sprintf("<- % x\n-> % x\n", noLogin, askOrigin) + text
				}
				peer := script.Listen(t, fmt.Sprintf("-> % x\n", greets)+text+"-> eof")
				conn, err := dial(Hop{Dialect: SOCKS5, Addr: peer.Addr, Auth: tt.auth})
				e := wantCode(t, err, tt.code)
				if e.Reply != tt.number || e.Stage != StageConnect || conn != nil {
					t.Errorf("%s: reply %d at %s, conn %v; want %d", how, e.Reply, e.Stage, conn, tt.number)
				}
				if tt.number != 0 && !strings.Contains(err.Error(), fmt.Sprintf("SOCKS reply %d", tt.number)) {
					t.Errorf("%s: the reply's number is not in %q", how, err)
				}
				peer.Wait()
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
