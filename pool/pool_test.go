package pool

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestReuse(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			p, f := New(Options{}), &farm{t: t, shared: shared, slots: 1}
			id := ident(1, "a")
			for i := range 3 {
				if got := fetch(t, p, f, id); got.Reused != (i > 0) || got.Retried || got.Waited != 0 {
					t.Errorf("request %d: %+v", i, got)
				}
			}
			if n := f.dials.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
			verify(t, p, true)
			p.Close()
			if f.open() != 0 {
				t.Error("a connection survived Close")
			}
		})
	}
}

func TestIdentitiesShareNothing(t *testing.T) {
	p, f := New(Options{}), &farm{t: t, shared: true, slots: 100}
	defer p.Close()
	ids := []Identity{ident(1, "a"), ident(2, "a"), ident(1, "b")}
	for range 3 {
		for _, id := range ids {
			fetch(t, p, f, id) // the farm checks
		}
	}
	if n := f.dials.Load(); int(n) != len(ids) {
		t.Errorf("%d connections", n)
	}
}

func TestDeadIdleConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{}), &farm{t: t}
		defer p.Close()
		id := ident(1, "a")
		fetch(t, p, f, id)
		f.conns[0].die()
		synctest.Wait()
		verify(t, p, true)
		if f.open() != 0 {
			t.Error("a dead connection is kept")
		}
		if got := fetch(t, p, f, id); got.Reused || got.Retried {
			t.Errorf("%+v", got)
		}
	})
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{IdleTimeout: time.Minute}), &farm{t: t}
		defer p.Close()
		id := ident(1, "a")
		for range 5 { // in use again before its time
			fetch(t, p, f, id)
			<-time.After(50 * time.Second)
		}
		if f.dials.Load() != 1 || f.open() != 1 {
			t.Fatalf("%d dials, %d open", f.dials.Load(), f.open())
		}
		res := start(t, p, f, id)
		<-time.After(time.Hour) // in use: not idle
		if f.open() != 1 {
			t.Fatal("a connection in use timed out")
		}
		finish(t, res)
		<-time.After(time.Minute + time.Second)
		if f.open() != 0 {
			t.Error("an idle connection outlived its time")
		}
		verify(t, p, true)
	})
}

func TestNoIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{IdleTimeout: -1}), &farm{t: t}
		defer p.Close()
		fetch(t, p, f, ident(1, "a"))
		<-time.After(1000 * time.Hour)
		if f.open() != 1 {
			t.Error("a connection timed out")
		}
	})
}

func TestIdleLimits(t *testing.T) {
	p, f := New(Options{MaxIdle: 3, MaxIdlePerHost: 2}), &farm{t: t}
	defer p.Close()
	use := func(id Identity, n int) {
		var open []*http.Response
		for range n {
			open = append(open, start(t, p, f, id))
		}
		for _, res := range open {
			finish(t, res)
		}
		verify(t, p, true)
	}
	use(ident(1, "a"), 5)
	if f.open() != 2 {
		t.Errorf("%d idle connections of one identity", f.open())
	}
	use(ident(2, "b"), 2)
	if f.open() != 3 {
		t.Errorf("%d idle connections", f.open())
	}
	if got := fetch(t, p, f, ident(2, "b")); !got.Reused {
		t.Error("the newest connection was closed")
	}
}

// TestNegativeIdleLimits has limits below zero, which keep no connection.
func TestNegativeIdleLimits(t *testing.T) {
	for _, opt := range []Options{{MaxIdlePerHost: -1}, {MaxIdle: -1}} {
		for _, shared := range []bool{false, true} {
			p, f := New(opt), &farm{t: t, shared: shared, slots: 2}
			for range 3 {
				if got := fetch(t, p, f, ident(1, "a")); got.Reused {
					t.Errorf("%+v: an idle connection was kept", opt)
				}
				verify(t, p, true)
			}
			if f.open() != 0 {
				t.Errorf("%+v: %d idle connections", opt, f.open())
			}
			p.Close()
		}
	}
}

func TestDisableKeepAlives(t *testing.T) {
	for _, shared := range []bool{false, true} {
		p, f := New(Options{DisableKeepAlives: true}), &farm{t: t, shared: shared, slots: 10}
		f.serve = func(_ *fakeConn, req *http.Request) (*http.Response, error) {
			if !req.Close {
				t.Error("the origin is not told")
			}
			return answer("ok"), nil
		}
		id := ident(1, "a")
		res := start(t, p, f, id)
		fetch(t, p, f, id)
		finish(t, res)
		if f.dials.Load() != 2 || f.open() != 0 {
			t.Errorf("%d dials, %d open", f.dials.Load(), f.open())
		}
		verify(t, p, true)
		p.Close()
	}
}

func TestUnreadBody(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, f := New(Options{MaxConnsPerHost: 1}), &farm{t: t, shared: shared}
			defer p.Close()
			for range 3 {
				res := start(t, p, f, ident(1, "a"))
				res.Body.Close()
				res.Body.Close()
				synctest.Wait()
				verify(t, p, true)
			}
		})
	}
}

func TestClose(t *testing.T) {
	t.Run("P08_in_use_and_waited_for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, f := New(Options{MaxConnsPerHost: 1}), &farm{t: t}
			a, b := ident(1, "a"), ident(2, "b")
			fetch(t, p, f, b)
			res := start(t, p, f, a)
			waited := make(chan struct{})
			go func() { // waits for a connection when the pool is closed
				defer close(waited)
				fetch(t, p, f, a)
			}()
			synctest.Wait()
			p.Close()
			if f.open() != 1 {
				t.Errorf("%d connections open with one in use", f.open())
			}
			finish(t, res)
			<-waited
			for range 2 { // requests that come late
				if got := fetch(t, p, f, a); got.Reused {
					t.Error("a closed pool kept a connection")
				}
			}
			if f.open() != 0 {
				t.Error("a connection went back to a closed pool")
			}
			verify(t, p, true)
			p.Close()
		})
	})
}

func TestForgottenIdentity(t *testing.T) {
	p, f := New(Options{MaxIdentities: 2}), &farm{t: t}
	defer p.Close()
	leg := func(key byte) (cache any) {
		id := ident(key, "a")
		res, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, func(_ context.Context, memory *Memory) (Conn, error) {
			cache = memory.Sessions("origin")
			if cache != any(memory.Sessions("origin")) || cache == any(memory.Sessions("proxy")) {
				t.Error("legs are mixed up")
			}
			return f.make(id), nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close() // unread: the next request dials again
		return cache
	}
	first := leg(1)
	if leg(1) != first {
		t.Error("the tickets of a known identity are lost")
	}
	leg(2)
	if leg(3); leg(1) == first {
		t.Error("the tickets of a forgotten identity are kept")
	}
	verify(t, p, true)

	busy := start(t, p, f, ident(4, "b"))
	for key := range byte(20) {
		fetch(t, p, f, ident(100+key, fmt.Sprint(key)))
	}
	finish(t, busy)
	verify(t, p, true)
	if len(p.ids) != 2 || len(p.hosts) > 2 || f.open() > 2 {
		t.Errorf("%d identities, %d hosts, %d connections", len(p.ids), len(p.hosts), f.open())
	}
	if got := fetch(t, p, f, ident(4, "b")); !got.Reused {
		t.Error("an identity in use was forgotten")
	}
}
