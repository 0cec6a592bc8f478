package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// noSocket fails the test if anything is dialled.
func noSocket(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, network, addr string) (net.Conn, error) {
		t.Errorf("dialled %s %s", network, addr)
		return nil, errors.New("not to be dialled")
	}
}

func TestInvalidHops(t *testing.T) {
	good := Hop{Dialect: HTTP, Addr: "p:1"}
	with := func(change func(*Hop)) []Hop {
		hop := good
		change(&hop)
		return []Hop{hop}
	}
	field := func(name, value string) []Hop {
		return with(func(h *Hop) { h.Header = http.Header{name: {value}} })
	}
	tests := map[string]struct {
		hops []Hop
		want Code
	}{
		"none":                     {nil, NoWay},
		"direct_behind_a_hop":      {[]Hop{good, {Dialect: Direct}}, NoWay},
		"direct_before_a_hop":      {[]Hop{{Dialect: Direct}, good}, NoWay},
		"K08_no_dialect":           {with(func(h *Hop) { h.Dialect = "" }), HopInvalid},
		"K08_unknown_dialect":      {with(func(h *Hop) { h.Dialect = "socks4" }), HopInvalid},
		"K08_no_address":           {with(func(h *Hop) { h.Addr = "" }), HopInvalid},
		"no_port":                  {with(func(h *Hop) { h.Addr = "p" }), HopInvalid},
		"named_port":               {with(func(h *Hop) { h.Addr = "p:http" }), HopInvalid},
		"unknown_network":          {with(func(h *Hop) { h.Network = "udp" }), HopInvalid},
		"second_hop_on_a_socket":   {[]Hop{good, {Dialect: HTTP, Network: "unix", Addr: "/p"}}, HopInvalid},
		"socket_without_a_path":    {[]Hop{{Dialect: HTTP, Network: "unix"}}, HopInvalid},
		"TLS_on_a_socket,_no_name": {[]Hop{{Dialect: HTTPS, Network: "unix", Addr: "/p"}}, HopInvalid},
		"zone_on_the_second_hop":   {[]Hop{good, {Dialect: HTTP, Addr: "[fe80::1%eth0]:1"}}, HopInvalid},
		"line_break_in_a_value":    {field("X-A", "a\r\nX-B: b"), HopInvalid},
		"NUL_in_a_value":           {field("X-A", "a\x00"), HopInvalid},
		"line_break_in_a_name":     {field("X-A: b\r\nX-B", "a"), HopInvalid},
		"empty_name":               {field("", "a"), HopInvalid},
		"Host":                     {field("host", "other"), HopInvalid},
		"Content-Length":           {field("Content-Length", "4"), HopInvalid},
		"Transfer-Encoding":        {field("transfer-encoding", "chunked"), HopInvalid},
		"login_twice":              {with(func(h *Hop) { h.Auth, h.Header = &Auth{"u", "p"}, http.Header{"proxy-authorization": {"x"}} }), HopInvalid},
		"connection_field_over_h2": {[]Hop{{Dialect: H2, Addr: "p:1", Header: http.Header{"Connection": {"x"}}}}, HopInvalid},
		"empty_login":              {with(func(h *Hop) { h.Auth = &Auth{} }), HopInvalid},
		"colon_in_a_Basic_user":    {with(func(h *Hop) { h.Auth = &Auth{"a:b", "p"} }), HopInvalid},
		"line_break_in_a_password": {with(func(h *Hop) { h.Auth = &Auth{"a", "p\n"} }), HopInvalid},
		"S09_empty_SOCKS_user":     {[]Hop{{Dialect: SOCKS5, Addr: "p:1", Auth: &Auth{"", "p"}}}, HopInvalid},
		"S09_user_of_256":          {[]Hop{{Dialect: SOCKS5, Addr: "p:1", Auth: &Auth{strings.Repeat("u", 256), "p"}}}, HopInvalid},
		"S09_password_of_256":      {[]Hop{{Dialect: SOCKS5, Addr: "p:1", Auth: &Auth{"u", strings.Repeat("p", 256)}}}, HopInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &Dialer{Hops: tt.hops, Dial: noSocket(t)}
			_, err := d.DialContext(context.Background(), "tcp", "origin.test:443")
			if e := wantCode(t, err, tt.want); e.Stage != StageConfig {
				t.Errorf("stage = %s", e.Stage)
			}
		})
	}
}

func TestInvalidTargets(t *testing.T) {
	tests := map[string]struct {
		network, addr string
		want          Code
	}{
		"no_port":             {"tcp", "origin.test", TargetInvalid},
		"C17_two_ports":       {"tcp", "origin.test:443:443", TargetInvalid},
		"port_0":              {"tcp", "origin.test:0", TargetInvalid},
		"port_out_of_range":   {"tcp", "origin.test:65536", TargetInvalid},
		"named_port":          {"tcp", "origin.test:https", TargetInvalid},
		"no_host":             {"tcp", ":443", TargetInvalid},
		"dots":                {"tcp", "..:443", TargetInvalid},
		"C20_S08_zone":        {"tcp", "[fe80::1%eth0]:443", TargetInvalid},
		"line_break":          {"tcp", "a\r\nHost: b:443", TargetInvalid},
		"space":               {"tcp", "a b:443", TargetInvalid},
		"userinfo":            {"tcp", "u@origin.test:443", TargetInvalid},
		"path":                {"tcp", "origin.test/x:443", TargetInvalid},
		"NUL":                 {"tcp", "a\x00b:443", TargetInvalid},
		"S06_name_of_256":     {"tcp", strings.Repeat("n", 256) + ":443", TargetTooLong},
		"S06_name_of_64KiB":   {"tcp", strings.Repeat("n", 1<<16) + ":443", TargetTooLong},
		"S06_name_of_257":     {"tcp", strings.Repeat("n", 257) + ":443", TargetTooLong},
		"S06_name_of_512":     {"tcp", strings.Repeat("n", 512) + ":443", TargetTooLong},
		"S06_long_in_Unicode": {"tcp", strings.Repeat("ü.", 60) + "x:443", TargetTooLong},
		"unix_over_a_proxy":   {"unix", "/run/app.sock", TargetInvalid},
		"udp":                 {"udp", "origin.test:443", TargetInvalid},
	}
	for name, tt := range tests {
		for _, dialect := range proxied {
			t.Run(name+"/"+string(dialect), func(t *testing.T) {
				d := &Dialer{Hops: []Hop{{Dialect: dialect, Addr: "p:1"}}, Dial: noSocket(t)}
				_, err := d.DialContext(context.Background(), tt.network, tt.addr)
				wantCode(t, err, tt.want)
				if len(err.Error()) > 1000 {
					t.Errorf("a text of %d bytes", len(err.Error()))
				}
			})
		}
	}
}

func TestIdentityTellsHopsApart(t *testing.T) {
	roots := &tlsuser.Config{ServerName: "a"}
	hops := map[string]Hop{
		"zero":          {},
		"dialect":       {Dialect: HTTP},
		"address":       {Addr: "p:1"},
		"network":       {Network: "unix"},
		"empty login":   {Auth: &Auth{}},
		"user":          {Auth: &Auth{"ab", "c"}},
		"shifted":       {Auth: &Auth{"a", "bc"}},
		"field":         {Header: http.Header{"A": {"b"}}},
		"field's value": {Header: http.Header{"A": {"c"}}},
		"two values":    {Header: http.Header{"A": {"b", "c"}}},
		"two fields":    {Header: http.Header{"A": {"b"}, "C": {}}},
		"TLS":           {TLS: roots},
		"other TLS":     {TLS: &tlsuser.Config{ServerName: "b"}},
		"zero TLS":      {TLS: &tlsuser.Config{}},
	}
	identity := func(h Hop) string {
		var b bytes.Buffer
		h.WriteIdentity(&b)
		return b.String()
	}
	t.Run("T07_all_differ", func(t *testing.T) {
		seen := make(map[string]string)
		for name, hop := range hops {
			id := identity(hop)
			if other, ok := seen[id]; ok {
				t.Errorf("%q and %q have one identity", name, other)
			}
			seen[id] = name
		}
	})
	if identity(Hop{Network: "tcp", Name: "p1", Timeout: time.Second}) != identity(Hop{}) {
		t.Error("the name, the timeout or the default network is part of the identity")
	}
}

// TestSecretsDoNotPrint prints whatever there is, however it can be: no secret is in it.
func TestSecretsDoNotPrint(t *testing.T) {
	const secret, user = "pa/s@s%w:rd", "mallory"
	auth := &Auth{user, secret}
	hop := Hop{Dialect: HTTP, Addr: listen(t, httpScript("HTTP/1.1 407 Auth\r\n\r\n")).addr, Auth: auth}
	bad := hop
	bad.Header = http.Header{"X-Key": {secret + "\n"}}
	assert := func(t *testing.T, text string) {
		t.Helper()
		if strings.Contains(text, secret) || strings.Contains(text, user) || strings.Contains(text, basic(auth)[6:14]) {
			t.Errorf("printed: %s", text)
		}
	}
	t.Run("C27_values", func(t *testing.T) {
		for _, v := range []any{auth, *auth, hop, &hop, []Hop{hop}, &bad, bad, Dialer{Hops: []Hop{hop, bad}}, struct{ H Hop }{hop}} {
			assert(t, fmt.Sprint(v)+fmt.Sprintf("%v %+v %s", v, v, v)+fmt.Sprintf("%#v", v))
		}
	})
	t.Run("C27_errors", func(t *testing.T) {
		echoes := func(begin string) Hop {
			h := hop
			h.Addr = listen(t, httpScript(begin+basic(auth)+"\r\n\r\n")).addr
			return h
		}
		tooLong := Hop{Dialect: SOCKS5, Addr: "p:1", Auth: &Auth{user, strings.Repeat(secret, 100)}}
		for _, h := range []Hop{hop, bad, tooLong, echoes(""), echoes("HTTP/1.1 "), echoes("HTTP/1.1 407 ")} {
			_, err := dial(h)
			assert(t, err.Error()+fmt.Sprintf("%+v", *wantAny(t, err)))
		}
	})
	t.Run("C27_errors_of_h2", func(t *testing.T) {
		token := strings.TrimRight(strings.TrimPrefix(basic(auth), "Basic "), "=")
		for _, says := range []string{
			"<- HEADERS 1 :status=407 x=%q END_STREAM\n-> rest", "<- HEADERS 1 :status=%q\n-> rest", "<- HEADERS 1 :status=200 " + token + "=%q\n-> rest",
			"<- GOAWAY 1 NO_ERROR %q\nclose", "<- GOAWAY 0 PROTOCOL_ERROR %q\nclose",
		} {
			h, _ := listenScript(t, H2, fmt.Sprintf(says, basic(auth)))
			h.Auth = auth
			_, err := dial(h)
			assert(t, err.Error()+fmt.Sprintf("%+v", *wantAny(t, err)))
		}
	})
}

func wantAny(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v (%T)", err, err)
	}
	return e
}

func TestMessages(t *testing.T) {
	const origin = "api.example.com:443"
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	tests := []struct {
		err  Error
		want string
	}{
		{Error{Stage: StageDial, Code: ProxyDialRefused, Hop: "p1", Addr: "127.0.0.1:1080", Target: origin, Err: refused},
			"cannot connect to proxy p1 (127.0.0.1:1080): connection refused; nothing was sent to api.example.com:443, no direct connection was made [proxy_dial_refused]"},
		{Error{Stage: StageDial, Code: ProxyNameUnresolved, Hop: "http://p.test:80", Addr: "p.test:80", Target: origin, Err: &net.DNSError{Err: "no such host", Name: "p.test"}},
			"cannot connect to proxy http://p.test:80: looking up p.test: no such host; nothing was sent to api.example.com:443, no direct connection was made [proxy_name_unresolved]"},
		{Error{Stage: StageDial, Code: OriginDialRefused, Hop: "direct", Addr: origin, Target: origin, Err: refused},
			"cannot connect to api.example.com:443: connection refused [origin_dial_refused]"},
		{Error{Stage: StageConnect, Code: ProxyConnectRefused, Hop: "p1", Addr: "grpc.internal:50051", Target: "grpc.internal:50051", Status: 403},
			"proxy p1 refused CONNECT grpc.internal:50051 (403): many proxies allow port 443 only [proxy_connect_refused]"},
		{Error{Stage: StageConnect, Code: ProxyConnectRefused, Hop: "p1", Addr: origin, Target: origin, Status: 401},
			"proxy p1 refused CONNECT api.example.com:443 (401): this is how an origin asks for a login, and how some proxies refuse one: check user and password [proxy_connect_refused]"},
		{Error{Stage: StageTLS, Code: "proxy_cert_untrusted", Hop: "p1", Addr: "p1:443", Target: origin, Err: &tlsuser.Error{Code: tlsuser.CertUntrusted, Issuer: "Corp CA"}},
			`TLS to proxy p1: issuer "Corp CA" is not trusted: put 'tls_trust_pool file <ca.pem>' inside its block; outside it means the origin [proxy_cert_untrusted]`},
		{Error{Stage: StageConnect, Code: SOCKSTTLExpired, Hop: "p1", Addr: origin, Target: origin, Reply: 6},
			"proxy p1 refused to connect to api.example.com:443 (SOCKS reply 6: time to live expired); nothing was sent to api.example.com:443, no direct connection was made [socks_ttl_expired]"},
		{Error{Stage: StageConnect, Code: ProxyTunnelTimeout, Hop: "p1", Addr: origin, Target: origin},
			"proxy p1 did not open a tunnel to api.example.com:443: timed out: it is slow (raise tunnel_timeout), or does not speak what the scheme of its URL says [proxy_tunnel_timeout]"},
		{Error{Stage: StageConfig, Code: HopInvalid, Hop: "p1", Target: origin, Err: errors.New("unknown network")},
			"hop p1 cannot be used: unknown network [hop_invalid]"},
		{Error{Stage: StageConfig, Code: TargetInvalid, Target: "a b", Err: errors.New("not host:port")},
			`cannot tunnel to "a b": not host:port [target_invalid]`},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("message:\n%s\nwant:\n%s", got, tt.want)
		}
	}
}

func TestDialFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ln.Addr().String()
	ln.Close()
	failing := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	tests := map[string]struct {
		dial          func(context.Context, string, string) (net.Conn, error)
		proxy, origin Code
	}{
		"refused":    {nil, ProxyDialRefused, OriginDialRefused},
		"timeout":    {failing(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), ProxyDialTimeout, OriginDialTimeout},
		"unresolved": {failing(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}), ProxyNameUnresolved, OriginNameUnresolved},
		"slow_DNS":   {failing(&net.DNSError{Err: "i/o timeout", IsTimeout: true}), ProxyDialTimeout, OriginDialTimeout},
		"other":      {failing(syscall.ENETUNREACH), ProxyDialFailed, OriginDialFailed},
	}
	for name, tt := range tests {
		for _, dialect := range append([]Dialect{Direct}, proxied...) {
			t.Run(name+"/"+string(dialect), func(t *testing.T) {
				want, target := tt.proxy, "origin.test:443"
				if dialect == Direct {
					want, target = tt.origin, closed
				}
				d := &Dialer{Hops: []Hop{{Dialect: dialect, Addr: closed}}, Dial: tt.dial}
				_, err := d.DialContext(context.Background(), "tcp", target)
				e := wantCode(t, err, want)
				if e.Stage != StageDial || e.Addr != closed || e.Timeout() != strings.HasSuffix(string(want), "timeout") {
					t.Errorf("stage %s, addr %s, Timeout() = %v", e.Stage, e.Addr, e.Timeout())
				}
			})
		}
	}
}
