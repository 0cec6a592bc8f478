package tunnel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/script"
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

func interimForEver(conn net.Conn) {
	readHead(bufio.NewReader(conn))
	for range 1000 {
		<-time.After(time.Second)
		if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return
		}
	}
}

// TestSilentProxy has proxies that stop answering at some point of the handshake. In each case the dial ends with the limit
// that comes first, and the socket is closed.
func TestSilentProxy(t *testing.T) {
	const (
		greet   = "-> 05 01 00\n<- 05 00\n"
		command = "-> 05 01 00 03 0b \"origin.test\" 01 bb\n"
	)
	login := &Auth{"user", "secret"}
	for name, tt := range map[string]struct {
		dialect Dialect
		auth    *Auth
		script  string
		code    Code
	}{
		"C12_http":               {HTTP, nil, scriptBegins(HTTP, "origin.test:443") + "-> eof", ProxyTunnelTimeout},
		"C12_https":              {HTTPS, nil, scriptBegins(HTTPS, "origin.test:443") + "-> eof", ProxyTunnelTimeout},
		"C12_https_in_TLS":       {HTTPS, nil, "-> rest", "proxy_tls_timeout"},
		"C12_h2":                 {H2, nil, scriptBegins(H2, "origin.test:443") + "-> rest", ProxyTunnelTimeout},
		"C12_h2_in_TLS":          {H2, nil, "-> rest", "proxy_tls_timeout"},
		"C12_h2_without_a_frame": {H2, nil, "tls h2\n-> rest", ProxyTunnelTimeout},
		"C12_http_reads_nothing": {HTTP, nil, "wait 1h", ProxyTunnelTimeout},
		"V14_half_a_reply":       {HTTP, nil, scriptBegins(HTTP, "origin.test:443") + "<- \"HTTP/1.1 200 OK\\r\\n\"\n-> eof", ProxyTunnelTimeout},
		"C13_interim_for_ever":   {HTTP, nil, "", ProxyTunnelTimeout},
		"S13_greeting":           {SOCKS5, nil, "-> 05 01 00\n-> eof", ProxyTunnelTimeout},
		"S13_login":              {SOCKS5, login, "-> 05 02 00 02\n<- 05 02\n-> 01 04 \"user\" 06 \"secret\"\n-> eof", ProxyTunnelTimeout},
		"S13_command":            {SOCKS5, nil, greet + command + "-> eof", ProxyTunnelTimeout},
		"S13_half_a_reply":       {SOCKS5, nil, greet + command + "<- 05 00\n-> eof", ProxyTunnelTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			for limit, l := range map[string]struct {
				timeout time.Duration // of the hop
				ctx     func() (context.Context, context.CancelFunc)
				after   time.Duration
				is      error
			}{
				"default":   {0, endless, DefaultTimeout, context.DeadlineExceeded},
				"timeout":   {3 * time.Second, endless, 3 * time.Second, context.DeadlineExceeded},
				"deadline":  {-1, within40s, 40 * time.Second, context.DeadlineExceeded},
				"cancelled": {0, cancelSoon, 100 * time.Millisecond, context.Canceled},
			} {
				synctest.Test(t, func(t *testing.T) {
					hop, sockets := scriptHop(tt.dialect), new(sockets)
					hop.Auth, hop.Timeout = tt.auth, l.timeout
					if sockets.by = inMemory(interimForEver); tt.script != "" {
						sockets.by = script.Config{TLS: scriptTLS(t)}.Dialer(t, tt.script)
					}
					ctx, cancel := l.ctx()
					defer cancel()
					began := time.Now()
					conn, err := (&Dialer{Hops: []Hop{hop}, Dial: sockets.dial}).DialContext(ctx, "tcp", "origin.test:443")
					want := tt.code
					if l.is == context.Canceled {
						want = DialCancelled
					}
					if e := wantCode(t, err, want); e.Timeout() != (want != DialCancelled) || !errors.Is(err, l.is) {
						t.Errorf("%s: %v: Timeout() = %v", limit, err, e.Timeout())
					}
					if took := time.Since(began); took != l.after || conn != nil {
						t.Errorf("%s: gave up after %v, want %v", limit, took, l.after)
					}
					<-time.After(2 * time.Hour) // until the script is over
					if n := sockets.open.Load(); n != 0 {
						t.Errorf("%s: %d sockets are open", limit, n)
					}
				})
			}
		})
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

// TestNoDeadlineAfterwards has an origin that speaks an hour after the tunnel was opened: what bounded the handshake, and its
// ctx, bound it no more.
func TestNoDeadlineAfterwards(t *testing.T) {
	const late = "quiet 1h\n<- \"late\"\n-> eof"
	for name, tt := range map[string]struct {
		dialect Dialect
		script  string // behind the request
	}{
		"S14_http":   {HTTP, scriptBegins(HTTP, "origin.test:443") + "<- \"HTTP/1.1 200 OK\\r\\n\\r\\n\"\n" + late},
		"S14_https":  {HTTPS, scriptBegins(HTTPS, "origin.test:443") + "<- \"HTTP/1.1 200 OK\\r\\n\\r\\n\"\n" + late},
		"S14_h2":     {H2, scriptBegins(H2, "origin.test:443") + "<- HEADERS 1 :status=200\n" + strings.Repeat("-> PING\n", 120) + "<- DATA 1 \"late\"\n-> rest"},
		"S14_socks5": {SOCKS5, "-> 05 01 00\n<- 05 00\n-> 05 01 00 03 0b \"origin.test\" 01 bb\n<- 05 00 00 01 7f 00 00 01 00 50\n" + late},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hop := scriptHop(tt.dialect)
				hop.Timeout = time.Second
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				d := &Dialer{Hops: []Hop{hop}, Dial: script.Config{TLS: scriptTLS(t)}.Dialer(t, tt.script)}
				conn, err := d.DialContext(ctx, "tcp", "origin.test:443")
				if err != nil {
					t.Fatal(err)
				}
				cancel()
				began := time.Now()
				got := make([]byte, 4)
				if _, err := io.ReadFull(conn, got); err != nil || string(got) != "late" || time.Since(began) < 59*time.Minute {
					t.Errorf("read %q after %v, %v", got, time.Since(began), err)
				}
				conn.Close()
				<-time.After(time.Minute) // until the script is over
			})
		})
	}
}

// TestSocketAfterCancel has a socket that comes when nobody waits for it any more: it is closed.
func TestSocketAfterCancel(t *testing.T) {
	for name, dialect := range map[string]Dialect{"C12_http": HTTP, "C12_https": HTTPS, "C12_h2": H2, "S13_socks5": SOCKS5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				sockets := &sockets{by: script.Dialer(t, "-> eof")}
				d := &Dialer{Hops: []Hop{scriptHop(dialect)}, Dial: func(_ context.Context, network, addr string) (net.Conn, error) {
					cancel()
					return sockets.dial(context.Background(), network, addr)
				}}
				_, err := d.DialContext(ctx, "tcp", "origin.test:443")
				if e := wantCode(t, err, DialCancelled); e.Stage != StageDial || !errors.Is(err, context.Canceled) {
					t.Errorf("error at %s: %v", e.Stage, err)
				}
				synctest.Wait()
				if n := sockets.open.Load(); n != 0 {
					t.Errorf("%d sockets are open", n)
				}
			})
		})
	}
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
