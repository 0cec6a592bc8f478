package pool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitersAreServedInOrder(t *testing.T) {
	for _, sameIdentity := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, f := New(Options{MaxConnsPerHost: 1}), &farm{t: t}
			defer p.Close()
			first := start(t, p, f, ident(0, "a"))
			served := make(chan byte, 5)
			for n := range byte(5) {
				key := byte(0)
				if !sameIdentity {
					key = n % 3
				}
				go func() {
					var got Got
					id := ident(key, "a")
					res, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, f.dialFor(id), &got)
					if err != nil {
						t.Error(err)
						return
					}
					served <- n
					if got.Waited < time.Second {
						t.Errorf("waited %v", got.Waited)
					}
					<-time.After(time.Second)
					finish(t, res)
				}()
				synctest.Wait()
			}
			fetch(t, p, f, ident(9, "b")) // another host is not held up
			<-time.After(time.Second)
			finish(t, first)
			var order []byte
			for range 5 {
				order = append(order, <-served)
				verify(t, p, false)
			}
			if !slices.IsSorted(order) {
				t.Errorf("served in the order %v", order)
			}
			<-time.After(2 * time.Second)
			verify(t, p, true)
		})
	}
}

func TestWaiterObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{MaxConnsPerHost: 1}), &farm{t: t}
		defer p.Close()
		id := ident(1, "a")
		res := start(t, p, f, id)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body := &testBody{data: "data"}
		var got Got
		_, err := p.RoundTrip(request(ctx, id, "POST", body), id, f.dialFor(id), &got)
		var e *Error
		if !errors.As(err, &e) || e.Stage != StageWait || e.BodyRead || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) || body.read > 0 {
			t.Errorf("%+v", err)
		}
		if got.Waited != time.Second {
			t.Errorf("waited %v", got.Waited)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := p.RoundTrip(request(ctx, id, "GET", nil), id, f.dialFor(id), nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		verify(t, p, false)
		finish(t, res)
		verify(t, p, true)
		fetch(t, p, f, id)
	})
}

func TestRoomIsMadeForAnotherIdentity(t *testing.T) {
	p, f := New(Options{MaxConnsPerHost: 2}), &farm{t: t}
	defer p.Close()
	for key := range byte(5) {
		fetch(t, p, f, ident(key, "a"))
		verify(t, p, true)
	}
	if f.open() != 2 {
		t.Errorf("%d connections", f.open())
	}
}

// What is dialed for a request that was cancelled meanwhile is closed, though others wait for it.
func TestCancelledDialIsNotHandedOver(t *testing.T) {
	for name, second := range map[string]Identity{
		"P03_equal_identity": ident(1, "a"),
		"P03_other_identity": ident(2, "a"),
		"P03_other_origin":   ident(2, "b"),
	} {
		for _, shared := range []bool{false, true} {
			for _, limit := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s_shared=%v,limit=%d", name, shared, limit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { cancelledDial(t, second, shared, limit) })
				})
			}
		}
	}
}

func cancelledDial(t *testing.T, second Identity, shared bool, limit int) {
	p, f := New(Options{MaxConnsPerHost: limit}), &farm{t: t, shared: shared}
	defer p.Close()
	first := ident(1, "a")
	ctx, cancel := context.WithCancel(t.Context())
	dialed, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, err := p.RoundTrip(request(ctx, first, "GET", nil), first, func(ctx context.Context, _ *Memory) (Conn, error) {
			<-dialed // does not look at ctx
			return f.make(first), nil
		}, nil)
		var e *Error
		if !errors.As(err, &e) || e.Stage != StageDial || !errors.Is(err, context.Canceled) {
			t.Errorf("%+v", err)
		}
	}()
	synctest.Wait()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if got := fetch(t, p, f, second); got.Reused {
			t.Error("the cancelled dial's connection was used")
		}
	}()
	synctest.Wait()
	cancel()
	if limit == 0 || second.Addr != first.Addr {
		<-answered // it waits for nobody
	}
	close(dialed)
	<-done
	<-answered
	for _, c := range f.conns {
		if c.id == first && c.rounds == 0 && !c.closed {
			t.Error("the connection of the cancelled dial is open")
		}
	}
	if len(f.conns) != 2 || f.open() != 1 {
		t.Errorf("%d connections, %d open", len(f.conns), f.open())
	}
	verify(t, p, true)
}

func TestDialError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{MaxConnsPerHost: 1}), &farm{t: t}
		defer p.Close()
		id, refused := ident(1, "a"), errors.New("refused")
		for range 3 {
			_, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, func(context.Context, *Memory) (Conn, error) { return nil, refused }, nil)
			var e *Error
			if !errors.As(err, &e) || e.Stage != StageDial || !errors.Is(err, refused) || e.Timeout() {
				t.Errorf("%+v", err)
			}
		}
		func() {
			defer func() { recover() }()
			p.RoundTrip(request(t.Context(), id, "GET", nil), id, func(context.Context, *Memory) (Conn, error) { panic("dial") }, nil)
		}()
		_, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, func(context.Context, *Memory) (Conn, error) {
			c := f.make(id)
			c.die()
			return c, nil
		}, nil)
		if err == nil || f.open() != 0 {
			t.Error(err)
		}
		fetch(t, p, f, id) // the place is free
		p.mu.Lock()
		p.ids[id].users-- // the panic's
		p.mu.Unlock()
	})
}

func TestSharedDialIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{}), &farm{t: t, shared: true, slots: 100}
		defer p.Close()
		id := ident(1, "a")
		fetch(t, p, f, id) // now it is known to be shareable
		f.conns[0].die()
		synctest.Wait()

		var dials, failed atomic.Int32
		dial := func(ctx context.Context, _ *Memory) (Conn, error) {
			n := dials.Add(1)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if n == 2 {
				return nil, errors.New("refused")
			}
			return f.make(id), nil
		}
		fetchAs := func(ctx context.Context) {
			res, err := p.RoundTrip(request(ctx, id, "GET", nil), id, dial, nil)
			if err != nil {
				failed.Add(1)
				return
			}
			finish(t, res)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go fetchAs(ctx) // dials first, is cancelled
		synctest.Wait()
		for range 10 {
			go fetchAs(t.Context())
			synctest.Wait()
		}
		if dials.Load() != 1 {
			t.Errorf("%d dials at once", dials.Load())
		}
		cancel()
		synctest.Wait() // the second one dials now, and fails
		if dials.Load() != 2 {
			t.Errorf("%d dials after a cancelled one", dials.Load())
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if dials.Load() != 4 || failed.Load() != 2 { // after the failure there are two at a time
			t.Errorf("%d dials, %d requests failed", dials.Load(), failed.Load())
		}
		verify(t, p, true)
	})
}

// A waiter is told when a slot becomes free long after the response that held it was over.
func TestLateSlot(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, f := New(Options{MaxConnsPerHost: 1}), &farm{t: t, shared: shared}
			defer p.Close()
			id := ident(1, "a")
			var c *fakeConn
			f.serve = func(conn *fakeConn, req *http.Request) (*http.Response, error) {
				c = conn
				if c.rounds == 1 {
					c.mu.Lock()
					c.taken++ // the slot outlives the response
					c.mu.Unlock()
				}
				return answer("ok"), nil
			}
			fetch(t, p, f, id)
			go func() {
				<-time.After(time.Second)
				c.free()
			}()
			if got := fetch(t, p, f, id); got.Waited != time.Second || !got.Reused {
				t.Errorf("%+v", got)
			}
			synctest.Wait()
			verify(t, p, true)
			if f.dials.Load() != 1 {
				t.Errorf("%d dials", f.dials.Load())
			}
		})
	}
}

// A peer that takes one stream only refuses all but one of a burst; each is served in the end.
func TestRefusedBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := New(Options{}), &farm{t: t, shared: true, slots: 100}
		defer p.Close()
		id := ident(1, "a")
		fetch(t, p, f, id)
		f.conns[0].die()
		synctest.Wait()
		f.serve = func(c *fakeConn, req *http.Request) (*http.Response, error) {
			if c.InFlight() > 1 {
				<-time.After(time.Millisecond)
				return nil, failure{unprocessed: true, unanswered: true, refused: true}
			}
			<-time.After(time.Second)
			return answer("ok"), nil
		}
		for range 50 {
			go fetch(t, p, f, id)
		}
		<-time.After(time.Hour)
		verify(t, p, true)
	})
}
