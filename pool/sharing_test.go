package pool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// burst sends requests of an identity at once, whose dials take a second, and counts the dials.
func burst(t *testing.T, p *Pool, f *farm, id Identity, requests int) int32 {
	t.Helper()
	before := f.dials.Load()
	for range requests {
		go func() {
			res, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, func(ctx context.Context, m *Memory) (Conn, error) {
				<-time.After(time.Second)
				return f.dialFor(id)(ctx, m)
			}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			finish(t, res)
		}()
	}
	<-time.After(10 * time.Second)
	verify(t, p, true)
	return f.dials.Load() - before
}

// The first connection of an identity is waited for where it is known that it will be shared.
func TestFirstConnectionIsAwaited(t *testing.T) {
	of := func(key byte, sharing Sharing) Identity {
		id := ident(key, "a")
		id.Sharing = sharing
		return id
	}
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{}), &farm{t: t, shared: true, slots: 100}
		defer p.Close()
		for _, row := range []struct {
			name string
			id   Identity
			want int32
		}{
			{"nothing is known", of(1, Unshared), 10},
			{"prior knowledge", of(2, Shared), 1},
			{"no last time", of(3, AsLastTime), 10},
			{"as last time", of(4, AsLastTime), 1},
			{"as last time, elsewhere", Identity{Key: [32]byte{5}, Addr: "b", Sharing: AsLastTime}, 10},
		} {
			if n := burst(t, p, f, row.id, 10); n != row.want {
				t.Errorf("%s: %d dials for ten requests", row.name, n)
			}
		}
		f.shared, f.slots = false, 1
		if n := burst(t, p, f, of(6, AsLastTime), 10); n != 10 {
			t.Errorf("no longer as last time: %d dials for ten requests", n)
		}
		if n := burst(t, p, f, of(7, Shared), 10); n != 10 {
			t.Errorf("what was known is wrong: %d dials for ten requests", n)
		}
	})
}

// Where there is no way at all, requests do not find it out one after the other.
func TestFailingDialsAreNotQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		defer p.Close()
		id := ident(1, "a")
		id.Sharing = Shared
		const requests = 100
		failed := make(chan error, requests)
		for range requests {
			go func() {
				_, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, func(context.Context, *Memory) (Conn, error) {
					<-time.After(time.Second)
					return nil, errors.New("refused")
				}, nil)
				failed <- err
			}()
		}
		start := time.Now()
		for range requests {
			if <-failed == nil {
				t.Error("no error")
			}
		}
		if took := time.Since(start); took > 7*time.Second {
			t.Errorf("it took the time of %v dials", took.Seconds())
		}
		verify(t, p, true)
	})
}
