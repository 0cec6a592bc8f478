package pool

import (
	"container/list"
	"context"
	"slices"
	"time"
)

// grant is what a request gets: a slot of a connection, or the right to make one.
type grant struct {
	e      *entry
	reused bool
	dial   bool
}

func (g grant) none() bool { return g.e == nil && !g.dial }

// shun is which connections a request that failed before does not want.
type shun struct {
	upTo uint64 // those not newer than this one; 0: none
	also *entry // nil: none
}

func (s shun) none() bool { return s == shun{} }

func (s shun) has(e *entry) bool { return e.seq <= s.upTo || e == s.also }

// waiter is a request that waits for a grant.
type waiter struct {
	id    *identity
	shun  shun
	grant grant
	ready chan struct{} // closed when grant is set
}

// get finds a slot for a request of id, or makes a connection.
func (p *Pool) get(ctx context.Context, id *identity, not shun, dial DialFunc, got *Got) (*entry, bool, *Error) {
	if err := ctx.Err(); err != nil {
		return nil, false, &Error{Stage: StageWait, Err: err}
	}
	p.mu.Lock()
	var g grant
	if id.host.waiters.Len() == 0 {
		g = p.take(id, not)
	}
	if !g.none() {
		p.unlock()
	} else {
		w := &waiter{id: id, shun: not, ready: make(chan struct{})}
		p.waiting.Add(1)
		place := id.host.waiters.PushBack(w)
		p.serve(id.host)
		p.unlock()
		start := time.Now()
		err := p.await(ctx, w, place)
		got.Waited += time.Since(start)
		if err != nil {
			return nil, false, &Error{Stage: StageWait, Err: err}
		}
		g = w.grant
	}
	if g.e != nil {
		return g.e, g.reused, nil
	}
	e, err := p.dial(ctx, id, dial)
	return e, false, err
}

// await waits for a grant or for ctx. A grant that comes too late is given back.
func (p *Pool) await(ctx context.Context, w *waiter, place *list.Element) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.unlock()
	switch {
	case w.grant.none():
		w.id.host.waiters.Remove(place)
		p.waiting.Add(-1)
	case w.grant.dial:
		p.dialed(w.id, false)
	default:
		w.grant.e.conn.Release()
		p.done(w.grant.e)
	}
	p.serve(w.id.host)
	return ctx.Err()
}

// serve gives grants to the waiters of a host, first come, first served. p.mu is held. Whatever frees a
// slot or a place calls it.
func (p *Pool) serve(h *host) {
	stuck := map[*identity]bool(nil)
	for el := h.waiters.Front(); el != nil; {
		w, place := el.Value.(*waiter), el
		el = el.Next()
		if w.shun.none() && stuck[w.id] {
			continue
		}
		w.grant = p.take(w.id, w.shun)
		if w.grant.none() {
			if stuck == nil {
				stuck = map[*identity]bool{}
			}
			stuck[w.id] = stuck[w.id] || w.shun.none()
			continue
		}
		h.waiters.Remove(place)
		p.waiting.Add(-1)
		close(w.ready)
	}
}

// take is a grant for a request of id, if there is one. p.mu is held.
func (p *Pool) take(id *identity, not shun) grant {
	if !p.opt.DisableKeepAlives {
		if g := p.reuse(id, not); !g.none() {
			return g
		}
		// A shared connection is on its way. After dials that failed more are made at a time, so that many requests do not
		// have to see one after the other that there is no way.
		if id.isShared && id.dialing > id.failed {
			return grant{}
		}
	}
	h := id.host
	if limit := p.opt.MaxConnsPerHost; limit > 0 && h.conns >= limit && !p.makeRoom(id) {
		if !not.none() { // better an older connection than none, if it can be shared
			return p.share(id, shun{})
		}
		return grant{}
	}
	h.conns++
	id.dialing++
	return grant{dial: true}
}

// reuse finds a slot in the connections of id.
func (p *Pool) reuse(id *identity, not shun) grant {
	for _, e := range slices.Backward(id.free) {
		if not.has(e) {
			continue
		}
		if e.conn.Err() == nil && e.conn.Reserve() {
			return grant{e: e, reused: p.use(e)}
		}
		p.remove(e) // idle, and not usable: it died
	}
	return p.share(id, not)
}

// share finds a slot in the shared connections of id.
func (p *Pool) share(id *identity, not shun) grant {
	for _, e := range slices.Backward(id.shared) {
		if not.has(e) {
			continue
		}
		if e.conn.Err() != nil {
			p.remove(e)
			continue
		}
		if id.cautious && e.uses > 0 && !e.proven.Load() {
			continue
		}
		if e.conn.Reserve() {
			return grant{e: e, reused: p.use(e)}
		}
	}
	return grant{}
}

// makeRoom closes the connection to the host of id that was idle for longest. One of id itself whose slots are
// not all free yet is about to be of use.
func (p *Pool) makeRoom(id *identity) bool {
	h := id.host
	if h.idle == 0 {
		return false
	}
	for el := p.idle.Back(); el != nil; el = el.Prev() {
		if e := el.Value.(*entry); e.id.host == h && (e.id != id || e.conn.InFlight() == 0) {
			p.remove(e)
			return true
		}
	}
	return false
}

// dialed is the end of a dial, with or without a connection. p.mu is held.
func (p *Pool) dialed(id *identity, ok bool) {
	id.dialing--
	if !ok {
		id.host.conns--
	}
}

// dial makes a connection with a grant to do so. It runs on the request's goroutine and is bound by its
// context; what comes after the context's end is closed, never given to another request.
func (p *Pool) dial(ctx context.Context, id *identity, dial DialFunc) (*entry, *Error) {
	var e *entry
	defer func() { // a panic of dial included
		p.mu.Lock()
		defer p.unlock()
		if e == nil {
			p.dialed(id, false)
			if ctx.Err() == nil {
				id.failed++
			}
		}
		p.serve(id.host)
	}()
	conn, err := dial(ctx, &id.memory)
	if err != nil {
		return nil, &Error{Stage: StageDial, Err: ended(ctx, err)}
	}
	if err := ctx.Err(); err != nil {
		conn.Close()
		return nil, &Error{Stage: StageDial, Err: err}
	}
	if !conn.Reserve() {
		err := conn.Err()
		conn.Close()
		if err == nil {
			err = errUnusable
		}
		return nil, &Error{Stage: StageDial, Err: err}
	}
	p.mu.Lock()
	p.dialed(id, true)
	id.failed = 0
	e = p.add(id, conn)
	p.unlock()
	conn.Notify(e.changed)
	return e, nil
}
