package tunnel

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

func TestCarriersIdle(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	d.Carriers.IdleTimeout = time.Millisecond
	target := startEcho(t, "")
	conn := mustDial(t, d, target)
	wantEcho(t, conn, "", "x")
	if p.Conns() != 1 {
		t.Error("a connection with a tunnel was closed")
	}
	conn.Close()
	eventually(t, "an idle connection is closed", func() bool { return p.Conns() == 0 })
	wantEcho(t, mustDial(t, d, target), "", "x")

	d.Carriers.mu.Lock()
	defer d.Carriers.mu.Unlock()
	if len(d.Carriers.groups) > 1 {
		t.Errorf("%d groups are kept for one identity", len(d.Carriers.groups))
	}
}

// What a client can choose, such as a login, must not hold connections without end.
func TestCarriersMaxIdle(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	d.Carriers.MaxIdle = 2
	target := startEcho(t, "")
	dialAs := func(password string) net.Conn {
		other := *d
		other.Hops = []Hop{d.Hops[0]}
		other.Hops[0].Auth = &Auth{"user", password}
		return mustDial(t, &other, target)
	}
	busy := dialAs("busy")
	for _, password := range []string{"a", "b", "a", "c"} {
		dialAs(password).Close()
	}
	eventually(t, "two idle connections are left, and the one in use", func() bool { return p.Conns() == 3 })
	before := p.Accepted()
	dialAs("a").Close()
	dialAs("c").Close()
	if got := p.Accepted() - before; got != 0 {
		t.Errorf("%d connections made for the logins used last", got)
	}
	dialAs("b").Close()
	if got := p.Accepted() - before; got != 1 {
		t.Errorf("%d connections made for the login used longest ago, want 1", got)
	}
	wantEcho(t, busy, "", "x")
}

func TestCarriersForgetIdentities(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	d.Carriers.IdleTimeout = time.Millisecond
	target := startEcho(t, "")
	for _, password := range []string{"a", "b", "c"} {
		other := *d
		other.Hops = []Hop{d.Hops[0]}
		other.Hops[0].Auth = &Auth{"user", password}
		mustDial(t, &other, target).Close()
	}
	eventually(t, "nothing is kept", func() bool {
		d.Carriers.mu.Lock()
		defer d.Carriers.mu.Unlock()
		return len(d.Carriers.groups) == 0 && p.Conns() == 0
	})
}

func TestCarriersClose(t *testing.T) {
	target := startEcho(t, "")
	t.Run("P08_last_tunnel_takes_its_connection_along", func(t *testing.T) {
		d, p := sharing(t, testbed.ProxyConfig{})
		conn := mustDial(t, d, target)
		d.Carriers.Close()
		wantEcho(t, conn, "", "x")
		conn.Close()
		eventually(t, "nothing is left", func() bool { return p.Conns() == 0 })

		late := mustDial(t, d, target)
		wantEcho(t, late, "", "x")
		late.Close()
		eventually(t, "nothing is left of one that comes late", func() bool { return p.Conns() == 0 })
	})
	t.Run("P08_idle_ones_are_closed_at_once", func(t *testing.T) {
		d, p := sharing(t, testbed.ProxyConfig{})
		mustDial(t, d, target).Close()
		d.Carriers.Close()
		eventually(t, "nothing is left", func() bool { return p.Conns() == 0 })
	})
}

// TestCarriersFrames has an h2 proxy speak up between tunnels: it is answered, and its connection stays of use.
func TestCarriersFrames(t *testing.T) {
	t.Run("P11_PING_and_SETTINGS", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const tunnel = "<- HEADERS %d :status=200\n-> DATA %[1]d END_STREAM\n<- DATA %[1]d END_STREAM\n"
			const frames = "<- SETTINGS INITIAL_WINDOW_SIZE=70000 MAX_CONCURRENT_STREAMS=1\n<- WINDOW_UPDATE 0 1000\n<- FRAME 0xbb 0 0 \"?\"\n<- PING\n-> PING ACK\n"
			sockets := &sockets{by: script.Config{TLS: scriptTLS(t)}.Dialer(t, scriptBegins(H2, "origin.test:443")+
				fmt.Sprintf(tunnel, 1)+frames+"-> HEADERS 3 :method=CONNECT\n"+fmt.Sprintf(tunnel, 3)+frames+"-> rest")}
			d := &Dialer{Hops: []Hop{scriptHop(H2)}, Dial: sockets.dial, Carriers: new(Carriers)}
			for range 2 {
				mustDial(t, d, "origin.test:443").Close()
				synctest.Wait()
			}
			if n := sockets.made.Load(); n != 1 {
				t.Errorf("%d connections to the proxy", n)
			}
			d.Carriers.Close()
		})
	})
	t.Run("P11_GOAWAY", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sockets := &sockets{by: script.Config{TLS: scriptTLS(t)}.Dialer(t, scriptBegins(H2, "origin.test:443")+
				"<- HEADERS 1 :status=200\n-> DATA 1 END_STREAM\n<- DATA 1 END_STREAM\nwait 10s\n<- GOAWAY 1 NO_ERROR\n-> rest")}
			d := &Dialer{Hops: []Hop{scriptHop(H2)}, Dial: sockets.dial, Carriers: new(Carriers)}
			d.Carriers.IdleTimeout = time.Hour
			mustDial(t, d, "origin.test:443").Close()
			<-time.After(9 * time.Second)
			if n := sockets.open.Load(); n != 1 {
				t.Errorf("%d connections are kept", n)
			}
			<-time.After(2 * time.Second)
			if n := sockets.open.Load(); n != 0 {
				t.Errorf("%d connections are kept after GOAWAY", n)
			}
		})
	})
}
