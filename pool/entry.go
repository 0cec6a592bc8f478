package pool

import (
	"container/list"
	"slices"
	"sync/atomic"
	"time"
)

// entry is a connection in the pool. It counts in its host's conns until it is closed.
type entry struct {
	p    *Pool
	id   *identity
	conn Conn
	seq  uint64

	proven    atomic.Bool // it has answered a request
	lingering atomic.Bool // without a request, but its slot is not free yet

	// Guarded by p.mu.
	uses    int           // requests, from Reserve to the end of the response's body
	served  bool          // a request was given to it
	removed bool          // it takes no more requests and is closed after the last use
	idle    *list.Element // of Pool.idle
	since   time.Time     // when it became idle
	timer   *time.Timer   // runs expire; set while it is pending
}

// add makes an entry of a connection that was dialed for id, with one slot in use. p.mu is held.
func (p *Pool) add(id *identity, conn Conn) *entry {
	p.seq++
	e := &entry{p: p, id: id, conn: conn, seq: p.seq, uses: 1, served: true}
	id.isShared = conn.Shareable()
	if id.id.Sharing == AsLastTime {
		id.host.isShared = id.isShared
	}
	switch {
	case id.isShared && id.memory.HTTP11Required(): // dialed before that was known
		id.isShared = false
		p.remove(e)
	case id.isShared && !p.opt.DisableKeepAlives:
		id.shared = append(id.shared, e)
	}
	return e
}

// use is a request that got a slot. p.mu is held.
func (p *Pool) use(e *entry) (reused bool) {
	p.wake(e)
	reused = e.served
	e.uses++
	e.served = true
	return reused
}

// wake takes an entry out of the idle ones.
func (p *Pool) wake(e *entry) {
	e.lingering.Store(false)
	if e.idle == nil {
		return
	}
	p.idle.Remove(e.idle)
	e.idle = nil
	e.id.host.idle--
	if !e.conn.Shareable() {
		e.id.free = drop(e.id.free, e)
	}
}

// drop removes the last occurrence of e, which is most often at the end.
func drop(list []*entry, e *entry) []*entry {
	for i, other := range slices.Backward(list) {
		if other == e {
			return slices.Delete(list, i, i+1)
		}
	}
	return list
}

// remove takes an entry from the pool; it is closed now, or by its last user. p.mu is held.
func (p *Pool) remove(e *entry) {
	if e.removed {
		return
	}
	e.removed = true
	p.wake(e)
	e.id.shared = drop(e.id.shared, e)
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if e.uses == 0 {
		p.doom(e)
	}
}

// doom has a removed entry closed, which frees its place.
func (p *Pool) doom(e *entry) {
	p.doomed = append(p.doomed, e.conn)
	e.id.host.conns--
	p.dropHost(e.id.host)
}

// done is the end of one use of e. Waiters come before idleness. p.mu is held.
func (p *Pool) done(e *entry) {
	e.uses--
	switch {
	case e.removed:
		if e.uses == 0 {
			p.doom(e)
		}
	case e.conn.Err() != nil || p.opt.DisableKeepAlives:
		p.remove(e)
	default:
		p.rest(e)
	}
	p.serve(e.id.host)
	p.limitIdle(e)
}

// rest makes an entry idle if it has no request. p.mu is held.
func (p *Pool) rest(e *entry) {
	if e.uses > 0 || e.removed || e.idle != nil {
		return
	}
	if !e.conn.Shareable() {
		e.lingering.Store(true) // before the look, so that a change behind it is told
		if e.conn.InFlight() > 0 {
			return
		}
		e.lingering.Store(false)
		e.id.free = append(e.id.free, e)
	}
	e.idle = p.idle.PushFront(e)
	e.since = time.Now()
	e.id.host.idle++
	if d := p.opt.idleTimeout(); d > 0 && e.timer == nil {
		e.timer = time.AfterFunc(d, e.expire)
	}
}

// limitIdle keeps the limits of idle connections after e became one of them. p.mu is held.
func (p *Pool) limitIdle(e *entry) {
	if e.idle == nil {
		return
	}
	before := len(p.doomed)
	if p.closed || e.id.gone {
		p.remove(e)
	}
	if most := p.opt.maxIdlePerHost(); len(e.id.free)+len(e.id.shared) > most {
		idle := slices.DeleteFunc(slices.Concat(e.id.free, e.id.shared), func(e *entry) bool { return e.idle == nil })
		slices.SortFunc(idle, func(a, b *entry) int { return a.since.Compare(b.since) })
		for _, e := range idle[:max(0, len(idle)-most)] {
			p.remove(e)
		}
	}
	for p.opt.MaxIdle != 0 && p.idle.Len() > max(p.opt.MaxIdle, 0) {
		oldest := p.idle.Back().Value.(*entry)
		p.remove(oldest)
		p.serve(oldest.id.host)
	}
	if len(p.doomed) > before {
		p.serve(e.id.host)
	}
}

// expire closes the entry if it was idle for long enough, else looks again when it may be.
func (e *entry) expire() {
	p := e.p
	p.mu.Lock()
	defer p.unlock()
	if e.timer == nil {
		return
	}
	e.timer = nil
	if e.idle == nil {
		return // rest sets the timer again
	}
	if left := p.opt.idleTimeout() - time.Since(e.since); left > 0 {
		e.timer = time.AfterFunc(left, e.expire)
		return
	}
	p.remove(e)
	p.serve(e.id.host)
}

// changed is the connection's Notify. It takes no lock, because it may run within a call that holds p.mu.
func (e *entry) changed() {
	if e.p.waiting.Load() > 0 || e.lingering.Load() || e.conn.Err() != nil {
		go e.settle()
	}
}

// settle takes note of what the connection told.
func (e *entry) settle() {
	p := e.p
	p.mu.Lock()
	defer p.unlock()
	if e.conn.Err() != nil {
		p.remove(e)
	} else if e.lingering.Load() {
		p.rest(e)
	}
	p.serve(e.id.host)
	p.limitIdle(e)
}
