package tlsuser

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestClientVerifiesTheName(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	tests := []struct {
		name    string
		server  string
		verify  string
		carries []string
		sni     string
		want    Code
	}{
		{name: "server_name", server: "a.test", carries: []string{"a.test"}, sni: "a.test"},
		{name: "trailing_dot", server: "a.test.", carries: []string{"a.test"}, sni: "a.test"},
		{name: "wildcard", server: "a.test", carries: []string{"*.test"}, sni: "a.test"},
		{name: "another_name", server: "a.test", carries: []string{"b.test"}, sni: "a.test", want: CertNameMismatch},
		{name: "verify_name", server: "front.test", verify: "a.test", carries: []string{"a.test"}, sni: "front.test"},
		{name: "verify_name,_certificate_of_the_SNI", server: "front.test", verify: "a.test", carries: []string{"front.test"}, sni: "front.test", want: CertNameMismatch},
		{name: "verify_name_alone", verify: "a.test", carries: []string{"a.test"}},
		{name: "verify_name_is_an_address", server: "a.test", verify: "192.0.2.1", carries: []string{"192.0.2.1"}, sni: "a.test"},
		{name: "T12_IPv4", server: "127.0.0.1", carries: []string{"127.0.0.1"}},
		{name: "T12_IPv4_not_carried", server: "127.0.0.1", carries: []string{"localhost"}, want: CertNameMismatch},
		{name: "T12_localhost_not_carried", server: "localhost", carries: []string{"127.0.0.1"}, sni: "localhost", want: CertNameMismatch},
		{name: "T12_IPv6", server: "::1", carries: []string{"::1"}},
		{name: "T12_IPv6_in_brackets", server: "[0:0:0:0:0:0:0:1]", carries: []string{"::1"}},
		{name: "T12_IPv6_with_a_zone", server: "fe80::1%eth0", carries: []string{"fe80::1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sni string
			cert := ca.issue(nil, tt.carries...)
			_, _, err := handshake(t, &Config{ServerName: tt.server, VerifyName: tt.verify, RootCAs: ca.pool()}, &tls.Config{
				GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
					sni = hello.ServerName
					return &cert, nil
				},
			})
			wantCode(t, err, tt.want)
			if sni != tt.sni {
				t.Errorf("SNI = %q, want %q", sni, tt.sni)
			}
		})
	}
}

// wantCode checks err against a code; the empty code means no error.
func wantCode(t *testing.T, err error, want Code) *Error {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Fatal(err)
		}
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v (%T), want *Error", err, err)
	}
	if e.Code != want {
		t.Fatalf("code = %s, want %s (%v)", e.Code, want, err)
	}
	if !strings.HasSuffix(err.Error(), "["+string(want)+"]") {
		t.Errorf("%q does not end in its code", err)
	}
	return e
}

func TestClientErrors(t *testing.T) {
	ca, other := newAuthority(t, "Test CA"), newAuthority(t, "Other CA")
	good := ca.issue(nil, "a.test")
	tests := []struct {
		name   string
		cfg    Config
		server *tls.Config
		want   Code
		issuer string
	}{
		{"untrusted", Config{ServerName: "a.test", RootCAs: other.pool()}, &tls.Config{Certificates: []tls.Certificate{good}}, CertUntrusted, "Test CA"},
		{"untrusted_by_the_system", Config{ServerName: "a.test"}, &tls.Config{Certificates: []tls.Certificate{good}}, CertUntrusted, "Test CA"},
		{"untrusted_for_a_verify_name", Config{VerifyName: "a.test", RootCAs: other.pool()}, &tls.Config{Certificates: []tls.Certificate{good}}, CertUntrusted, "Test CA"},
		{"expired", Config{ServerName: "a.test", RootCAs: ca.pool()}, &tls.Config{Certificates: []tls.Certificate{
			ca.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "a.test")}}, CertExpired, "Test CA"},
		{"not_valid_yet", Config{VerifyName: "a.test", RootCAs: ca.pool()}, &tls.Config{Certificates: []tls.Certificate{
			ca.issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, "a.test")}}, CertExpired, "Test CA"},
		{"not_a_server's", Config{ServerName: "a.test", RootCAs: ca.pool()}, &tls.Config{Certificates: []tls.Certificate{
			ca.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, "a.test")}}, CertInvalid, "Test CA"},
		{"no_version_in_common", Config{ServerName: "a.test", RootCAs: ca.pool()}, &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS11}, Failed, ""},
		{"no_protocol_in_common", Config{ServerName: "a.test", RootCAs: ca.pool(), NextProtos: []string{"h2"}}, &tls.Config{Certificates: []tls.Certificate{good}, NextProtos: []string{"x"}}, Failed, ""},
		{"client_certificate,_TLS_1.2", Config{ServerName: "a.test", RootCAs: ca.pool()}, &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, ClientCertRefused, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := handshake(t, &tt.cfg, tt.server)
			if e := wantCode(t, err, tt.want); e.Issuer != tt.issuer {
				t.Errorf("issuer = %q, want %q", e.Issuer, tt.issuer)
			}
		})
	}
}

// With TLS 1.3 the handshake is done for the client before the server has seen its certificate.
func TestCodeOfClientCertRefusedLate(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	_, _, err := handshake(t, &Config{ServerName: "a.test", RootCAs: ca.pool()}, &tls.Config{
		Certificates: []tls.Certificate{ca.issue(nil, "a.test")}, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	if got := CodeOf(err); got != ClientCertRefused {
		t.Errorf("CodeOf(%v) = %s, want %s", err, got, ClientCertRefused)
	}
}

func TestClientAgainstOddPeers(t *testing.T) {
	tests := map[string]struct {
		answer string
		want   Code
	}{
		"HTTP":   {"HTTP/1.1 400 Bad Request\r\n\r\n", NotTLS},
		"SOCKS":  {"\x05\xff" + strings.Repeat("\x00", 8), NotTLS},
		"banner": {"SSH-2.0-OpenSSH_9.9\r\n", NotTLS},
		"closes": {"", Closed},
		"cut":    {"\x16\x03\x03\x00\x7a\x02", Closed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			near, far := dialPair(t)
			go answerHello(far, tt.answer)
			_, err := Client(context.Background(), near, &Config{ServerName: "a.test"})
			wantCode(t, err, tt.want)
			if !near.closed.Load() {
				t.Error("the conn was left open")
			}
		})
	}
}

func answerHello(conn net.Conn, answer string) {
	conn.Read(make([]byte, 4096))
	conn.Write([]byte(answer))
	conn.(*net.TCPConn).CloseWrite()
}

func TestClientWithoutName(t *testing.T) {
	for name, cfg := range map[string]*Config{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			near, _ := dialPair(t)
			_, err := Client(context.Background(), near, cfg)
			wantCode(t, err, BadConfig)
			if !near.closed.Load() {
				t.Error("the conn was left open")
			}
		})
	}
}

func TestClientSkipsVerification(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	server := &tls.Config{Certificates: []tls.Certificate{ca.issue(nil, "b.test")}}
	for name, cfg := range map[string]Config{"no_name": {}, "server_name": {ServerName: "a.test"}, "verify_name": {VerifyName: "a.test"}} {
		t.Run(name, func(t *testing.T) {
			cfg.InsecureSkipVerify = true
			_, _, err := handshake(t, &cfg, server)
			wantCode(t, err, "")
		})
	}
}

func TestClientCertificate(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	mine := ca.issue(func(c *x509.Certificate) { c.Subject.CommonName = "me" })
	server := &tls.Config{
		Certificates: []tls.Certificate{ca.issue(nil, "a.test")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(),
	}
	for name, cfg := range map[string]Config{
		"certificates": {Certificates: []tls.Certificate{mine}},
		"func":         {GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &mine, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.ServerName, cfg.RootCAs = "a.test", ca.pool()
			_, state, err := handshake(t, &cfg, server)
			wantCode(t, err, "")
			if got := state.PeerCertificates[0].Subject.CommonName; got != "me" {
				t.Errorf("the server saw %q", got)
			}
		})
	}
}

func TestClientNegotiates(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	conn, _, err := handshake(t, &Config{ServerName: "a.test", RootCAs: ca.pool(), NextProtos: []string{"h2", "http/1.1"},
		CurvePreferences: []tls.CurveID{tls.CurveP256}}, &tls.Config{
		Certificates: []tls.Certificate{ca.issue(nil, "a.test")}, NextProtos: []string{"h2"},
	})
	wantCode(t, err, "")
	if state := conn.ConnectionState(); state.NegotiatedProtocol != "h2" || state.CurveID != tls.CurveP256 {
		t.Errorf("negotiated %q with %v", state.NegotiatedProtocol, state.CurveID)
	}
}

func TestClientTimeLimits(t *testing.T) {
	tests := map[string]struct {
		timeout time.Duration
		ctx     func() (context.Context, context.CancelFunc)
		want    Code
		after   time.Duration
		is      error
	}{
		"default":   {0, background, Timeout, DefaultTimeout, context.DeadlineExceeded},
		"own":       {time.Second, background, Timeout, time.Second, context.DeadlineExceeded},
		"deadline":  {-1, within(time.Minute), Timeout, time.Minute, context.DeadlineExceeded},
		"cancelled": {0, cancelledAfter(2 * time.Second), Cancelled, 2 * time.Second, context.Canceled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, far := net.Pipe()
				defer far.Close()
				go far.Read(make([]byte, 4096)) // takes the hello, says nothing
				near := &watched{Conn: conn}
				ctx, cancel := tt.ctx()
				defer cancel()
				began := time.Now()
				_, err := Client(ctx, near, &Config{ServerName: "a.test", Timeout: tt.timeout})
				e := wantCode(t, err, tt.want)
				if !errors.Is(err, tt.is) || e.Timeout() != (tt.want == Timeout) {
					t.Errorf("error = %v, Timeout() = %v", err, e.Timeout())
				}
				if got := time.Since(began); got != tt.after {
					t.Errorf("gave up after %v, want %v", got, tt.after)
				}
				if !near.closed.Load() {
					t.Error("the conn was left open")
				}
			})
		})
	}
}

func background() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

func within(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
}

func cancelledAfter(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

func TestErrorBoundsForeignText(t *testing.T) {
	for _, e := range []*Error{
		{Code: CertUntrusted, Issuer: strings.Repeat("x", 1<<16)},
		{Code: CertNameMismatch, Err: errors.New(strings.Repeat("x", 1<<16))},
		{Code: CertUntrusted, Issuer: "a\nb"},
	} {
		if text := e.Error(); len(text) > 500 || strings.ContainsAny(text, "\n") {
			t.Errorf("text of %d bytes: %.100q", len(text), text)
		}
	}
}
