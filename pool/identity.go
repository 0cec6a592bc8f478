package pool

import (
	"container/list"
	"crypto/tls"
	"sync"
	"sync/atomic"
)

// identity is the connections of one Identity. Connections without multiplexing are in no list while a
// request uses them.
type identity struct {
	id     Identity
	host   *host
	memory Memory

	users    int           // requests in progress; 0: it is in Pool.unused
	unused   *list.Element // of Pool.unused
	dialing  int
	failed   int      // dials in a row
	free     []*entry // one-request connections without a request, most recently used last
	shared   []*entry // shareable connections, newest last
	isShared bool     // the newest connection was shareable, or the first one is expected to be
	cautious bool     // a stream was refused once: a new shared connection gets one request until it has answered
	gone     bool     // forgotten
}

// enter finds or makes the identity and counts a user. p.mu is held.
func (p *Pool) enter(key Identity) *identity {
	id := p.ids[key]
	if id == nil {
		h := p.host(key.Addr)
		id = &identity{id: key, host: h, isShared: key.Sharing == Shared || key.Sharing == AsLastTime && h.isShared}
		id.host.identities++
		p.ids[key] = id
		p.limitIdentities()
	} else if id.unused != nil {
		p.unused.Remove(id.unused)
		id.unused = nil
	}
	id.users++
	return id
}

// leave is the end of a user. p.mu is held.
func (p *Pool) leave(id *identity) {
	id.users--
	if id.users > 0 {
		return
	}
	id.unused = p.unused.PushFront(id)
	if p.closed {
		p.forget(id)
		return
	}
	p.limitIdentities()
}

func (p *Pool) limitIdentities() {
	for len(p.ids) > p.opt.maxIdentities() && p.unused.Len() > 0 {
		p.forget(p.unused.Back().Value.(*identity))
	}
}

// forget drops an identity without users: its connections and its memory. p.mu is held.
func (p *Pool) forget(id *identity) {
	p.unused.Remove(id.unused)
	delete(p.ids, id.id)
	id.gone = true
	for len(id.free) > 0 {
		p.remove(id.free[0])
	}
	for len(id.shared) > 0 {
		p.remove(id.shared[0])
	}
	id.host.identities--
	p.serve(id.host)
	p.dropHost(id.host)
}

// dropHost forgets a host that nothing refers to.
func (p *Pool) dropHost(h *host) {
	if h.identities == 0 && h.conns == 0 {
		delete(p.hosts, h.addr)
	}
}

// requireHTTP11 has no further request of id sent over its shared connections: their peer wants HTTP/1.1. What is
// in flight on them goes on. p.mu is held.
func (p *Pool) requireHTTP11(id *identity) {
	id.memory.http11.Store(true)
	id.isShared = false
	for len(id.shared) > 0 {
		p.remove(id.shared[0])
	}
}

// Memory is what the pool knows of one identity from connections before, for as long as it remembers the identity.
type Memory struct {
	http11 atomic.Bool

	mu   sync.Mutex
	legs map[string]tls.ClientSessionCache
}

// HTTP11Required says that the origin has refused HTTP/2 with HTTP_1_1_REQUIRED: the connection is to be one of HTTP/1.1.
func (m *Memory) HTTP11Required() bool { return m.http11.Load() }

// sessionsPerLeg is how many sessions a leg keeps. One server name is the rule.
const sessionsPerLeg = 4

// Sessions gives the TLS session cache of one leg of the way: "origin", or a hop's name. It is the same one for the
// same leg and safe for concurrent use.
func (m *Memory) Sessions(leg string) tls.ClientSessionCache {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.legs == nil {
		m.legs = map[string]tls.ClientSessionCache{}
	}
	c := m.legs[leg]
	if c == nil {
		c = tls.NewLRUClientSessionCache(sessionsPerLeg)
		m.legs[leg] = c
	}
	return c
}
