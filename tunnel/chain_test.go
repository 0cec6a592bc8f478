package tunnel

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// eventually waits for what another goroutine is about to bring about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func TestChains(t *testing.T) {
	target := startEcho(t, "hello ")
	var chains [][]Dialect
	for _, near := range proxied {
		for _, far := range proxied {
			chains = append(chains, []Dialect{near, far})
		}
	}
	chains = append(chains, []Dialect{HTTP, SOCKS5, HTTPS}, []Dialect{H2, H2, H2}, []Dialect{SOCKS5, H2, HTTP})
	for _, chain := range chains {
		name := ""
		for _, dialect := range chain {
			name += "-" + string(dialect)
		}
		t.Run(name[1:], func(t *testing.T) {
			var hops []Hop
			var proxies []*testbed.Proxy
			for _, dialect := range chain {
				p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Username: "user", Password: string(dialect)})
				proxies = append(proxies, p)
				hop := hopTo(p)
				hop.Auth = &Auth{"user", string(dialect)}
				hops = append(hops, hop)
			}
			var stages []Stage
			d := &Dialer{Hops: hops, Trace: func(e Event) { stages = append(stages, e.Stage) }}
			conn, err := d.DialContext(context.Background(), "tcp", target)
			if err != nil {
				t.Fatal(err)
			}
			wantEcho(t, conn, "hello ", "world")
			conn.Close()

			var want []Stage
			for i, p := range proxies {
				next := target
				if i+1 < len(hops) {
					next = hops[i+1].Addr
				}
				if got := p.Targets(); !slices.Equal(got, []string{next}) {
					t.Errorf("hop %d was asked for %q, want %q", i, got, next)
				}
				if i == 0 {
					want = append(want, StageDial)
				}
				if hops[i].usesTLS() {
					want = append(want, StageTLS)
				}
				want = append(want, StageConnect)
				eventually(t, "every connection is closed", func() bool { return p.Conns() == 0 })
			}
			if !slices.Equal(stages, want) {
				t.Errorf("stages %v, want %v", stages, want)
			}
		})
	}
}

func TestChainThatFails(t *testing.T) {
	for _, near := range proxied {
		for _, far := range proxied {
			t.Run(string(near)+"-"+string(far), func(t *testing.T) {
				first := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(near)})
				second := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(far), Username: "user", Password: "secret"})
				hop := hopTo(second)
				hop.Name = "second"
				_, err := (&Dialer{Hops: []Hop{hopTo(first), hop}}).DialContext(context.Background(), "tcp", "origin.test:443")
				if e := wantCode(t, err, ProxyAuthRequired); e.Hop != "second" || e.Addr != "origin.test:443" || e.Target != "origin.test:443" {
					t.Errorf("blames %s for %s", e.Hop, e.Addr)
				}
				// The first hop cannot reach the second.
				second.Close()
				_, err = (&Dialer{Hops: []Hop{hopTo(first), hop}}).DialContext(context.Background(), "tcp", "origin.test:443")
				if e := wantAny(t, err); e.Hop != hopTo(first).String() || e.Addr != hop.Addr || e.Target != "origin.test:443" || e.Stage != StageConnect {
					t.Errorf("blames %s at %s for %s", e.Hop, e.Stage, e.Addr)
				}
				eventually(t, "every connection is closed", func() bool { return first.Conns() == 0 && second.Conns() == 0 })
			})
		}
	}
}

// TestFailuresLeaveNothingOpen fails in every way behind the connect, again and again.
func TestFailuresLeaveNothingOpen(t *testing.T) {
	for name, m := range map[string]testbed.Misbehave{
		"C24_refuses":           {Status: 403, SOCKSReply: 2},
		"C24_wants_a_login":     {Status: 407, Method: 2},
		"C24_garbage":           {Garbage: []byte("\x7f\x7f\x7f garbage\r\n\r\n")},
		"C24_closes_at_request": {Close: testbed.AtRequest},
		"C24_closes_at_accept":  {Close: testbed.AtAccept},
		"C24_too_much":          {Flood: testbed.FloodFields, Status: 500, SOCKSReply: 99},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dialect := range proxied {
				p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Misbehave: m})
				hop := hopTo(p)
				for range 100 {
					if conn, err := dial(hop); err == nil {
						conn.Close()
						t.Fatalf("%s: the tunnel opened", dialect)
					}
				}
				eventually(t, "every connection is closed", func() bool { return p.Conns() == 0 })
				if n := p.Accepted(); n != 100 {
					t.Errorf("%s: %d connections for 100 dials", dialect, n)
				}
			}
		})
	}
	t.Run("C24_TLS_to_the_proxy", func(t *testing.T) {
		for _, dialect := range []Dialect{HTTPS, H2} {
			p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect)})
			hop := hopTo(p)
			hop.TLS.ServerName = "other.test"
			for range 100 {
				_, err := dial(hop)
				wantCode(t, err, "proxy_cert_name_mismatch")
			}
			eventually(t, "every connection is closed", func() bool { return p.Conns() == 0 })
		}
	})
}

func TestProxyOnUnixSocket(t *testing.T) {
	target := startEcho(t, "")
	for _, dialect := range proxied {
		t.Run(string(dialect), func(t *testing.T) {
			p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.Dialect(dialect), Network: "unix", Addr: filepath.Join(t.TempDir(), "p.sock")})
			far := startProxy(t, testbed.ProxyConfig{Dialect: testbed.SOCKS5})
			conn, err := (&Dialer{Hops: []Hop{hopTo(p), hopTo(far)}}).DialContext(context.Background(), "tcp", target)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			wantEcho(t, conn, "", "x")
		})
	}
}

func TestDirect(t *testing.T) {
	d := &Dialer{Hops: []Hop{{Dialect: Direct}}}
	for _, network := range []string{"tcp", "tcp4"} {
		conn, err := d.DialContext(context.Background(), network, startEcho(t, ""))
		if err != nil {
			t.Fatal(err)
		}
		wantEcho(t, conn, "", "x")
		if _, ok := conn.(*tlsuser.ReadAhead); !ok {
			t.Errorf("a direct conn is a %T", conn)
		}
		conn.Close()
	}
	path := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := d.DialContext(context.Background(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := closeWrite(conn); err != nil {
		t.Error(err)
	}
	conn.Close()
	_, err = d.DialContext(context.Background(), "unix", path+".none")
	wantCode(t, err, OriginDialFailed)
}
