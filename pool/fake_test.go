package pool

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// farm makes fake connections and checks what is done with them.
type farm struct {
	t      *testing.T
	shared bool
	slots  int                                                          // of a connection; 0: 1
	serve  func(c *fakeConn, req *http.Request) (*http.Response, error) // nil: answer at once

	closing func() // runs within Close of each connection; nil: nothing

	dials atomic.Int32
	mu    sync.Mutex
	conns []*fakeConn
}

// fakeConn is a connection of a farm. Its id is that of the request it was dialed for.
type fakeConn struct {
	f  *farm
	id Identity
	n  int

	mu     sync.Mutex
	taken  int // slots
	unused int // of those, not yet given to RoundTrip
	dead   error
	closed bool
	notify func()
	rounds int
}

func (f *farm) dialFor(id Identity) DialFunc {
	return func(ctx context.Context, _ *Memory) (Conn, error) {
		f.dials.Add(1)
		return f.make(id), nil
	}
}

func (f *farm) make(id Identity) *fakeConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &fakeConn{f: f, id: id, n: len(f.conns)}
	f.conns = append(f.conns, c)
	return c
}

func (f *farm) open() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.mu.Lock()
		if !c.closed {
			n++
		}
		c.mu.Unlock()
	}
	return n
}

func (c *fakeConn) Shareable() bool { return c.f.shared }

func (c *fakeConn) Reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil || c.taken >= max(c.f.slots, 1) {
		return false
	}
	c.taken++
	c.unused++
	return true
}

func (c *fakeConn) Release() {
	c.mu.Lock()
	if c.unused == 0 {
		c.f.t.Error("Release without Reserve")
	}
	c.unused--
	c.mu.Unlock()
	c.free()
}

func (c *fakeConn) free() {
	c.mu.Lock()
	c.taken--
	notify := c.notify
	c.mu.Unlock()
	if notify != nil {
		notify()
	}
}

func (c *fakeConn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

func (c *fakeConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

func (c *fakeConn) Notify(f func()) {
	c.mu.Lock()
	c.notify = f
	dead := c.dead
	c.mu.Unlock()
	if dead != nil {
		f()
	}
}

// die is what a peer's close does.
func (c *fakeConn) die() {
	c.mu.Lock()
	if c.dead == nil {
		c.dead = errors.New("peer closed")
	}
	notify := c.notify
	c.mu.Unlock()
	if notify != nil {
		notify()
	}
}

func (c *fakeConn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.f.t.Error("a connection is closed twice")
	}
	c.closed = true
	if c.dead == nil && c.taken > 0 {
		c.f.t.Error("a connection in use is closed")
	}
	c.mu.Unlock()
	if c.f.closing != nil {
		c.f.closing()
	}
	c.die()
	return nil
}

func (c *fakeConn) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	switch {
	case c.closed:
		c.f.t.Error("a request on a closed connection")
	case c.unused == 0:
		c.f.t.Error("a request without a slot")
	}
	c.unused--
	c.rounds++
	c.mu.Unlock()
	if got := identify(req); got != c.id {
		c.f.t.Errorf("a request of identity %v on a connection of %v", got, c.id)
	}
	serve := c.f.serve
	if serve == nil {
		serve = func(*fakeConn, *http.Request) (*http.Response, error) { return answer("ok"), nil }
	}
	res, err := serve(c, req)
	if err == nil {
		err = req.Context().Err()
	}
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		c.free()
		return nil, err
	}
	res.Body = &fakeBody{ReadCloser: res.Body, c: c}
	return res, nil
}

type fakeBody struct {
	io.ReadCloser
	c    *fakeConn
	once sync.Once
}

func (b *fakeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.once.Do(b.c.free)
	}
	return n, err
}

func (b *fakeBody) Close() error {
	b.once.Do(func() { // before its end: a one-request connection is spent
		if !b.c.Shareable() {
			b.c.die()
		}
		b.c.free()
	})
	return nil
}

func answer(body string) *http.Response {
	return &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// ident makes identities; those with the same host share an address.
func ident(key byte, addr string) Identity { return Identity{Key: [32]byte{key}, Addr: addr} }

type idKey struct{}

func identify(req *http.Request) Identity { return req.Context().Value(idKey{}).(Identity) }

func request(ctx context.Context, id Identity, method string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(context.WithValue(ctx, idKey{}, id), method, "http://origin.test/", body)
	if err != nil {
		panic(err)
	}
	req.GetBody = nil
	return req
}

// fetch does a GET to its end.
func fetch(t *testing.T, p *Pool, f *farm, id Identity) Got {
	t.Helper()
	var got Got
	res, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, f.dialFor(id), &got)
	if err != nil {
		t.Error(err)
		return got
	}
	finish(t, res)
	return got
}

func finish(t *testing.T, res *http.Response) {
	t.Helper()
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Error(err)
	}
	res.Body.Close()
}

// start does a GET and gives the response with its body open.
func start(t *testing.T, p *Pool, f *farm, id Identity) *http.Response {
	t.Helper()
	res, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, f.dialFor(id), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// verify checks the pool's books. With quiet, no request is in progress.
func verify(t *testing.T, p *Pool, quiet bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := map[*host]int{}
	for el := p.idle.Front(); el != nil; el = el.Next() {
		e := el.Value.(*entry)
		idle[e.id.host]++
		if e.uses != 0 || e.removed || e.idle != el {
			t.Errorf("idle entry %+v", e)
		}
	}
	if n := p.opt.MaxIdle; n > 0 && p.idle.Len() > n {
		t.Errorf("%d idle connections", p.idle.Len())
	}
	for addr, h := range p.hosts {
		if h.idle != idle[h] || h.conns < h.idle || h.addr != addr {
			t.Errorf("%s: %d idle, %d counted, %d connections", addr, idle[h], h.idle, h.conns)
		}
		if n := p.opt.MaxConnsPerHost; n > 0 && h.conns > n {
			t.Errorf("%s: %d connections", addr, h.conns)
		}
		if quiet && (h.conns != h.idle || h.waiters.Len() > 0) {
			t.Errorf("%s: at rest, %d connections, %d idle, %d waiters", addr, h.conns, h.idle, h.waiters.Len())
		}
	}
	for _, id := range p.ids {
		if (id.users == 0) != (id.unused != nil) || id.dialing < 0 || id.gone || p.hosts[id.id.Addr] != id.host {
			t.Errorf("identity %+v", id)
		}
		if quiet && (id.users != 0 || id.dialing != 0) {
			t.Errorf("at rest, identity %+v", id)
		}
	}
	if quiet && (p.waiting.Load() != 0 || p.unused.Len() != len(p.ids)) {
		t.Errorf("at rest, %d waiting, %d of %d identities unused", p.waiting.Load(), p.unused.Len(), len(p.ids))
	}
}
