package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// inMemory dials a pipe whose other end is served by script until the client closes it.
func inMemory(script func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			script(far)
			io.Copy(io.Discard, far)
		}()
		return near, nil
	}
}

// tlsScript does the server's side of TLS and goes on with then.
func tlsScript(t *testing.T, cfg *tls.Config, then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		tconn := tls.Server(conn, cfg)
		if tconn.Handshake() == nil {
			then(tconn)
		}
	}
}

// silentAt are peers that stop answering at some point of the handshake.
func silentAt(t *testing.T) map[string]struct {
	hop    Hop
	script func(net.Conn)
	code   Code
} {
	ca, err := testbed.NewAuthority("Test CA")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(testbed.CertRequest{Names: []string{"proxy.test"}})
	if err != nil {
		t.Fatal(err)
	}
	// Time in a bubble is long before any certificate.
	trust := &tlsuser.Config{InsecureSkipVerify: true, Timeout: -1}
	server := func(proto string) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{proto}}
	}
	login := &Auth{"user", "secret"}
	silent := func(net.Conn) {}
	return map[string]struct {
		hop    Hop
		script func(net.Conn)
		code   Code
	}{
		"C12_request":           {Hop{Dialect: HTTP}, silent, ProxyTunnelTimeout},
		"V14_half_a_reply":      {Hop{Dialect: HTTP}, httpScript("HTTP/1.1 200 OK\r\n"), ProxyTunnelTimeout},
		"C13_interim_for_ever":  {Hop{Dialect: HTTP}, interimForEver, ProxyTunnelTimeout},
		"TLS":                   {Hop{Dialect: HTTPS, TLS: trust}, silent, "proxy_tls_timeout"},
		"request_over_TLS":      {Hop{Dialect: HTTPS, TLS: trust}, tlsScript(t, server("http/1.1"), silent), ProxyTunnelTimeout},
		"TLS_of_h2":             {Hop{Dialect: H2, TLS: trust}, silent, "proxy_tls_timeout"},
		"request_over_h2":       {Hop{Dialect: H2, TLS: trust}, tlsScript(t, server("h2"), silent), ProxyTunnelTimeout},
		"S13_greeting":          {Hop{Dialect: SOCKS5}, silent, ProxyTunnelTimeout},
		"S13_login":             {Hop{Dialect: SOCKS5, Auth: login}, socksScript(nil, socksStep{4, []string{wantsLogin}}), ProxyTunnelTimeout},
		"S13_command":           {Hop{Dialect: SOCKS5}, socksScript(nil, socksStep{3, []string{noLogin}}), ProxyTunnelTimeout},
		"S13_half_a_reply":      {Hop{Dialect: SOCKS5}, socksScript(nil, socksStep{3, []string{noLogin + "\x05\x00"}}), ProxyTunnelTimeout},
		"a_peer_that_reads_not": {Hop{Dialect: HTTP}, func(conn net.Conn) { <-time.After(time.Hour) }, ProxyTunnelTimeout},
	}
}

func interimForEver(conn net.Conn) {
	readHead(bufio.NewReader(conn))
	for range 1000 {
		<-time.After(time.Second)
		if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return
		}
	}
}

func TestSilentProxy(t *testing.T) {
	limits := map[string]struct {
		timeout time.Duration // of the hop
		ctx     func() (context.Context, context.CancelFunc)
		after   time.Duration
		is      error
	}{
		"default":   {0, endless, DefaultTimeout, context.DeadlineExceeded},
		"timeout":   {3 * time.Second, endless, 3 * time.Second, context.DeadlineExceeded},
		"deadline":  {-1, within40s, 40 * time.Second, context.DeadlineExceeded},
		"cancelled": {0, cancelSoon, 100 * time.Millisecond, context.Canceled},
	}
	for name, tt := range silentAt(t) {
		for limit, l := range limits {
			t.Run(name+"/"+limit, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hop := tt.hop
					hop.Addr, hop.Timeout = "proxy.test:1", l.timeout
					ctx, cancel := l.ctx()
					defer cancel()
					began := time.Now()
					conn, err := (&Dialer{Hops: []Hop{hop}, Dial: inMemory(tt.script)}).DialContext(ctx, "tcp", "origin.test:443")
					want := tt.code
					if l.is == context.Canceled {
						want = DialCancelled
					}
					if e := wantCode(t, err, want); e.Timeout() != (want != DialCancelled) || !errors.Is(err, l.is) {
						t.Errorf("%v: Timeout() = %v", err, e.Timeout())
					}
					if took := time.Since(began); took != l.after || conn != nil {
						t.Errorf("gave up after %v, want %v", took, l.after)
					}
					// The bubble ends well only if the peer sees that its conn is closed, when it looks again.
					<-time.After(2 * time.Hour)
				})
			})
		}
	}
}

func endless() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

// within40s ends before an h2 proxy that says nothing is given up for dead.
func within40s() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 40*time.Second)
}

func cancelSoon() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	return ctx, cancel
}

// S14: what bounded the handshake does not bound the tunnel.
func TestS14_NoDeadlineAfterwards(t *testing.T) {
	for name, tt := range map[string]struct {
		dialect Dialect
		script  func(net.Conn)
	}{
		"http":   {HTTP, httpScript("HTTP/1.1 200 OK\r\n\r\n")},
		"socks5": {SOCKS5, socksScript(nil, socksStep{3, []string{noLogin}}, socksStep{len(askOrigin), []string{okIPv4}})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				d := &Dialer{Hops: []Hop{{Dialect: tt.dialect, Addr: "p:1", Timeout: time.Second}}, Dial: inMemory(func(conn net.Conn) {
					tt.script(conn)
					<-time.After(time.Hour)
					io.WriteString(conn, "late")
				})}
				conn, err := d.DialContext(ctx, "tcp", "origin.test:443")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				cancel()
				got := make([]byte, 4)
				if _, err := io.ReadFull(conn, got); err != nil || string(got) != "late" {
					t.Errorf("read %q, %v", got, err)
				}
			})
		})
	}
}

// S13: a socket that comes when nobody waits any more is closed.
func TestS13_SocketAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		d := &Dialer{Hops: []Hop{{Dialect: SOCKS5, Addr: "p:1"}}, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			cancel()
			return inMemory(func(net.Conn) {})(ctx, network, addr)
		}}
		_, err := d.DialContext(ctx, "tcp", "origin.test:443")
		if e := wantCode(t, err, DialCancelled); e.Stage != StageDial || !errors.Is(err, context.Canceled) {
			t.Errorf("error at %s: %v", e.Stage, err)
		}
	})
}

// deadlineless is a conn that cannot be interrupted but by closing it.
type deadlineless struct{ net.Conn }

func (deadlineless) SetDeadline(time.Time) error { return errors.ErrUnsupported }

func TestCancelOfConnWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := cancelSoon()
		defer cancel()
		pipe := inMemory(func(net.Conn) {})
		d := &Dialer{Hops: []Hop{{Dialect: HTTP, Addr: "p:1"}}, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := pipe(ctx, network, addr)
			return deadlineless{conn}, err
		}}
		_, err := d.DialContext(ctx, "tcp", "origin.test:443")
		wantCode(t, err, DialCancelled)
	})
}
