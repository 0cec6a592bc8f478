package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// sharing is a Dialer with Carriers through one h2 proxy.
func sharing(t *testing.T, config testbed.ProxyConfig) (*Dialer, *testbed.Proxy) {
	t.Helper()
	config.Dialect = testbed.H2
	p := startProxy(t, config)
	d := &Dialer{Hops: []Hop{hopTo(p)}, Carriers: new(Carriers)}
	t.Cleanup(d.Carriers.Close)
	return d, p
}

func mustDial(t *testing.T, d *Dialer, target string) net.Conn {
	t.Helper()
	conn, err := d.DialContext(context.Background(), "tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestCarriersShare(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	target := startEcho(t, "")
	for range 5 {
		wantEcho(t, mustDial(t, d, target), "", "x")
	}
	other := startEcho(t, "hello ")
	wantEcho(t, mustDial(t, d, other), "hello ", "x")
	if p.Accepted() != 1 {
		t.Errorf("%d connections for tunnels of one identity", p.Accepted())
	}
}

// P05 and D1: whatever differs in the way, the connection is another.
func TestCarriersKeepIdentitiesApart_P05(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	target := startEcho(t, "")
	mustDial(t, d, target)
	for i, change := range []func(*Dialer, *Hop){
		func(_ *Dialer, h *Hop) { h.Auth = &Auth{"user", "a"} },
		func(_ *Dialer, h *Hop) { h.Auth = &Auth{"user", "b"} },
		func(_ *Dialer, h *Hop) { h.Header = map[string][]string{"X-Team": {"web"}} },
		func(_ *Dialer, h *Hop) { tls := *h.TLS; tls.InsecureSkipVerify = true; h.TLS = &tls },
		func(d *Dialer, _ *Hop) { d.PullBytes = 4096 },
	} {
		other := *d
		other.Hops = []Hop{d.Hops[0]}
		change(&other, &other.Hops[0])
		for range 2 {
			wantEcho(t, mustDial(t, &other, target), "", "x")
		}
		if got, want := int(p.Accepted()), i+2; got != want {
			t.Errorf("change %d: %d connections, want %d", i, got, want)
		}
	}
	// The way to the proxy counts too.
	first := startProxy(t, testbed.ProxyConfig{Dialect: testbed.HTTP})
	through := *d
	through.Hops = []Hop{hopTo(first), d.Hops[0]}
	before := p.Accepted()
	mustDial(t, &through, target)
	mustDial(t, &through, target)
	if got := p.Accepted() - before; got != 1 || first.Accepted() != 1 {
		t.Errorf("%d and %d connections over another way", got, first.Accepted())
	}
}

func TestCarriersGrow_P02(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{MaxConcurrentStreams: 2})
	target := startEcho(t, "")
	var conns []net.Conn
	for range 5 {
		conns = append(conns, mustDial(t, d, target))
	}
	if p.Accepted() != 3 {
		t.Errorf("%d connections for 5 tunnels, two on each", p.Accepted())
	}
	conns[0].Close()
	eventually(t, "a closed tunnel gives its stream back", func() bool { return p.Tunnels() == 4 })
	mustDial(t, d, target)
	for _, conn := range conns[1:] {
		wantEcho(t, conn, "", "x")
	}
	if p.Accepted() != 3 {
		t.Errorf("%d connections after a stream was free", p.Accepted())
	}
}

func TestCarriersConcurrently(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{MaxConcurrentStreams: 5})
	target := startEcho(t, "")
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			conn, err := d.DialContext(context.Background(), "tcp", target)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "x"); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if p.Accepted() > 40 {
		t.Errorf("%d connections for 40 tunnels", p.Accepted())
	}
}

// Dials come while a connection is being opened, and just when it has been: none opens a second one.
func TestCarriersShareTheFirst(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	target := startEcho(t, "")
	const rounds = 100
	for i := range rounds {
		d.Carriers = new(Carriers)
		began := time.Now()
		var wg sync.WaitGroup
		for j := range 16 {
			wg.Go(func() {
				for time.Since(began) < time.Duration(j)*time.Millisecond { // spins, as a timer is too coarse
				}
				conn, err := d.DialContext(context.Background(), "tcp", target)
				if err != nil {
					t.Error(err)
					return
				}
				conn.Close()
			})
		}
		wg.Wait()
		d.Carriers.Close()
		if got := int(p.Accepted()); got != i+1 {
			t.Fatalf("%d connections for the tunnels of round %d", got-i, i+1)
		}
	}
}

func TestCarrierDies(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	target := startEcho(t, "")
	for range 10 {
		conn := mustDial(t, d, target)
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(conn, make([]byte, 1))
		p.DropConns()
		// Perhaps before it is known that the connection is gone:
		next := mustDial(t, d, target)
		if _, err := io.ReadAll(conn); err == nil {
			t.Error("a tunnel whose carrier died ends like one that was closed")
		}
		wantEcho(t, next, "", "y")
		conn.Close()
		next.Close()
	}
}

// What the far end still has to get is not cut off by the connection that closes behind the tunnel.
func TestLastBytesOfLastTunnel(t *testing.T) {
	const size = 3 << 20
	got := make(chan int64, 1)
	target := listen(t, func(conn net.Conn) {
		n, _ := io.Copy(io.Discard, conn)
		got <- n
	}).addr
	p := startProxy(t, testbed.ProxyConfig{Dialect: testbed.H2})
	conn := mustDial(t, &Dialer{Hops: []Hop{hopTo(p)}}, target)
	if _, err := io.Copy(conn, io.LimitReader(zeros{}, size)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if n := <-got; n != size {
		t.Errorf("%d of %d bytes arrived", n, size)
	}
	eventually(t, "the connection is closed", func() bool { return p.Conns() == 0 })
}

// C06, D15: a refusal is one target's, a bad login is the connection's.
func TestCarrierAfterRefusal(t *testing.T) {
	target := startEcho(t, "")
	d, p := sharing(t, testbed.ProxyConfig{Allow: func(to string) bool { return to == target }})
	conn := mustDial(t, d, target)
	_, err := d.DialContext(context.Background(), "tcp", "other.test:443")
	if e := wantCode(t, err, ProxyConnectRefused); e.Status != 403 {
		t.Errorf("status %d", e.Status)
	}
	wantEcho(t, conn, "", "x")
	if p.Accepted() != 1 {
		t.Errorf("%d connections", p.Accepted())
	}
	d, p = sharing(t, testbed.ProxyConfig{Username: "user", Password: "secret"})
	_, err = d.DialContext(context.Background(), "tcp", target)
	wantCode(t, err, ProxyAuthRequired)
	eventually(t, "a connection with a bad login is closed", func() bool { return p.Conns() == 0 })
}

// gate holds back the dials of a Dialer.
type gate struct {
	entered chan struct{}
	open    chan error // what a dial comes to; nil: a connection
}

func (g *gate) hold(d *Dialer) {
	d.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		g.entered <- struct{}{}
		select {
		case err := <-g.open:
			if err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type dialed struct {
	conn net.Conn
	err  error
}

func dialLater(ctx context.Context, d *Dialer, target string) <-chan dialed {
	done := make(chan dialed, 1)
	go func() {
		conn, err := d.DialContext(ctx, "tcp", target)
		done <- dialed{conn, err}
	}()
	return done
}

// watchedCtx tells when someone begins to wait for its end.
type watchedCtx struct {
	context.Context
	once    *sync.Once
	awaited chan struct{}
}

func watch(ctx context.Context) *watchedCtx {
	return &watchedCtx{ctx, new(sync.Once), make(chan struct{})}
}

func (c *watchedCtx) Done() <-chan struct{} {
	c.once.Do(func() { close(c.awaited) })
	return c.Context.Done()
}

// waitLater dials, and returns when the dial waits for the carrier that someone else opens.
func waitLater(ctx context.Context, d *Dialer, target string) <-chan dialed {
	watched := watch(ctx)
	done := dialLater(watched, d, target)
	<-watched.awaited
	return done
}

func TestCarrierWaitersObeyTheirOwnCtx(t *testing.T) {
	d, p := sharing(t, testbed.ProxyConfig{})
	g := &gate{make(chan struct{}), make(chan error)}
	g.hold(d)
	target := startEcho(t, "")
	opener := dialLater(context.Background(), d, target)
	<-g.entered
	ctx, cancel := context.WithCancel(context.Background())
	impatient, patient := waitLater(ctx, d, target), waitLater(context.Background(), d, target)
	cancel()
	if got := <-impatient; !errors.Is(got.err, context.Canceled) {
		t.Errorf("the cancelled one: %v", got.err)
	} else {
		wantCode(t, got.err, DialCancelled)
	}
	g.open <- nil
	for _, ch := range []<-chan dialed{opener, patient} {
		got := <-ch
		if got.err != nil {
			t.Fatal(got.err)
		}
		got.conn.Close()
	}
	if p.Accepted() != 1 {
		t.Errorf("%d connections", p.Accepted())
	}
}

func TestCarrierOpenerIsCancelled(t *testing.T) {
	d, _ := sharing(t, testbed.ProxyConfig{})
	g := &gate{make(chan struct{}), make(chan error)}
	g.hold(d)
	ctx, cancel := context.WithCancel(context.Background())
	opener := dialLater(ctx, d, "a.test:1")
	<-g.entered
	waiter := waitLater(context.Background(), d, startEcho(t, ""))
	cancel()
	wantCode(t, (<-opener).err, DialCancelled)
	<-g.entered // the waiter dials itself
	g.open <- nil
	got := <-waiter
	if got.err != nil {
		t.Fatal(got.err)
	}
	got.conn.Close()
}

func TestCarrierWaitersShareAFailure(t *testing.T) {
	d, _ := sharing(t, testbed.ProxyConfig{})
	g := &gate{make(chan struct{}), make(chan error)}
	g.hold(d)
	opener := dialLater(context.Background(), d, "a.test:1")
	<-g.entered
	waiter := waitLater(context.Background(), d, "b.test:2")
	g.open <- errors.New("no route")
	for target, ch := range map[string]<-chan dialed{"a.test:1": opener, "b.test:2": waiter} {
		if e := wantCode(t, (<-ch).err, ProxyDialFailed); e.Target != target {
			t.Errorf("the error of %s is about %s", target, e.Target)
		}
	}
}

// A target that does not answer holds nobody up, not even while it is the first of its carrier.
func TestSlowTargetHoldsNobodyUp(t *testing.T) {
	target, reached := startEcho(t, ""), make(chan struct{})
	d, p := sharing(t, testbed.ProxyConfig{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != target {
			close(reached)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	slow := dialLater(ctx, d, "slow.test:1")
	<-reached
	wantEcho(t, mustDial(t, d, target), "", "x")
	if p.Accepted() != 1 {
		t.Errorf("%d connections", p.Accepted())
	}
	cancel()
	wantCode(t, (<-slow).err, DialCancelled)
}
