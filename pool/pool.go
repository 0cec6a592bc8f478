package pool

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// Pool keeps connections. Make one with New. All methods may be called concurrently.
type Pool struct {
	opt     Options
	waiting atomic.Int32 // waiters in all queues; added to before a waiter looks for a slot

	mu     sync.Mutex // guards all that follows, and every identity, host and entry; never held while I/O is waited for
	closed bool
	seq    uint64 // of the newest entry
	ids    map[Identity]*identity
	unused list.List // of *identity without a request; most recently used in front
	hosts  map[string]*host
	idle   list.List // of *entry without a request; most recently used in front
	doomed []Conn    // to be closed by unlock
}

// host is what connections to one address share.
type host struct {
	addr       string
	identities int
	conns      int       // open ones and those being made
	idle       int       // of those, in Pool.idle
	isShared   bool      // the newest connection of an AsLastTime identity was shareable
	waiters    list.List // of *waiter, longest waiting in front
}

// New makes a Pool. Close ends it.
func New(opt Options) *Pool {
	return &Pool{opt: opt, ids: map[Identity]*identity{}, hosts: map[string]*host{}}
}

// Close closes the idle connections and those in use as soon as their last request is over. Requests that
// RoundTrip has begun with complete, even if they still wait for a connection; it does not wait for them.
// RoundTrip works after it, for requests that were under way before but come late, but nothing is kept.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.unlock()
	p.closed = true
	for el := p.idle.Front(); el != nil; {
		e := el.Value.(*entry)
		el = el.Next()
		p.remove(e)
	}
	for el := p.unused.Front(); el != nil; {
		id := el.Value.(*identity)
		el = el.Next()
		p.forget(id)
	}
	for _, h := range p.hosts {
		p.serve(h)
	}
}

// unlock releases the lock and closes what was removed meanwhile.
func (p *Pool) unlock() {
	doomed := p.doomed
	p.doomed = nil
	p.mu.Unlock()
	for _, c := range doomed {
		c.Close()
	}
}

func (p *Pool) host(addr string) *host {
	h := p.hosts[addr]
	if h == nil {
		h = &host{addr: addr}
		p.hosts[addr] = h
	}
	return h
}
