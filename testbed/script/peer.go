package script

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Config says what scripts cannot. The zero value will do for scripts without TLS.
type Config struct {
	// TLS is the server side of "tls" steps. The step's ALPN protocols, if any, replace its NextProtos.
	TLS *tls.Config
}

// Listen is [Config.Listen] of the zero Config.
func Listen(t testing.TB, scripts ...string) *Peer {
	t.Helper()
	return Config{}.Listen(t, scripts...)
}

// Dialer is [Config.Dialer] of the zero Config.
func Dialer(t testing.TB, scripts ...string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	t.Helper()
	return Config{}.Dialer(t, scripts...)
}

// Play plays a script on conn, closes conn, and fails the test if the other side departs from the script.
func Play(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	steps := mustParse(t, text)
	if err := newPlayer(conn, Config{}, make(chan struct{})).play(steps[0]); err != nil {
		t.Error(err)
	}
}

// Listen listens on a free port of 127.0.0.1 until the test ends. The first connection gets the first script and so on;
// the last script is for all that come after.
func (c Config) Listen(t testing.TB, scripts ...string) *Peer {
	t.Helper()
	p := newPeer(t, c, scripts)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Addr = ln.Addr().String()
	accepting := make(chan struct{})
	go p.accept(ln, accepting)
	t.Cleanup(func() {
		ln.Close()
		<-accepting
		p.stop()
	})
	return p
}

// Dialer returns a dial function whose connections are in memory and are given scripts as those of
// [Config.Listen]. In a synctest bubble it must be called inside.
func (c Config) Dialer(t testing.TB, scripts ...string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	t.Helper()
	p := newPeer(t, c, scripts)
	t.Cleanup(p.stop)
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		near, far := memory()
		p.serve(far)
		return near, nil
	}
}

// A Peer plays scripts on the connections that are made to it. Its methods are safe for concurrent use.
type Peer struct {
	Addr string // host:port

	t       testing.TB
	config  Config
	scripts [][]*step
	done    chan struct{} // closed when the test ends
	running sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a script ends
	players []*player
	playing int
}

func newPeer(t testing.TB, c Config, scripts []string) *Peer {
	t.Helper()
	if len(scripts) == 0 {
		t.Fatal("script: a peer needs a script")
	}
	return &Peer{t: t, config: c, scripts: mustParse(t, scripts...), done: make(chan struct{}), changed: make(chan struct{})}
}

func (p *Peer) accept(ln net.Listener, accepting chan<- struct{}) {
	defer close(accepting)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		p.serve(conn)
	}
}

func (p *Peer) serve(conn net.Conn) {
	player := newPlayer(conn, p.config, p.done)
	p.mu.Lock()
	nth := len(p.players)
	p.players = append(p.players, player)
	p.playing++
	p.mu.Unlock()
	p.running.Go(func() {
		defer p.ended()
		err := player.play(p.scripts[min(nth, len(p.scripts)-1)])
		var d *departure
		switch {
		case err == nil:
		case p.stopped() && errors.As(err, &d) && d.step.holds:
		case p.stopped():
			p.t.Errorf("script: connection %d: the test ended at %v", nth+1, err)
		default:
			p.t.Errorf("script: connection %d: %v", nth+1, err)
		}
	})
}

func (p *Peer) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.playing--
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Peer) stopped() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends the scripts that still play.
func (p *Peer) stop() {
	close(p.done)
	p.mu.Lock()
	players := slices.Clone(p.players)
	p.mu.Unlock()
	for _, player := range players {
		player.socket.Close()
	}
	p.running.Wait()
}

// Accepted is the number of connections made so far.
func (p *Peer) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.players)
}

// Open is the number of connections whose scripts still play. With scripts that end in "-> rest" it is the number of
// those that the other side has not closed.
func (p *Peer) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.playing
}

// Heard is what the other side has sent so far on the nth connection, counted from 0: what is within TLS after a "tls"
// step. It is nil if there was none.
func (p *Peer) Heard(nth int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if nth >= len(p.players) {
		return nil
	}
	return p.players[nth].heard()
}

// Wait waits until no script plays. It fails the test after 20 seconds.
func (p *Peer) Wait() {
	p.t.Helper()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		playing, changed := p.playing, p.changed
		p.mu.Unlock()
		if playing == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			p.t.Fatalf("script: %d scripts still play", playing)
		}
	}
}
