package testbed

import (
	"fmt"
	"slices"
)

// Seen returns the requests for tunnels, in the order in which they came in; the latest few thousand. Headers are
// shared, not copied.
func (p *Proxy) Seen() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make([]Request, len(p.requests))
	for i, r := range p.requests {
		seen[i] = *r
	}
	return seen
}

// Targets returns the targets that were asked for, in that order.
func (p *Proxy) Targets() []string {
	var targets []string
	for _, r := range p.Seen() {
		targets = append(targets, r.Target)
	}
	return targets
}

// Peers returns the connections that were accepted, in that order, with what TLS showed of their clients.
func (p *Proxy) Peers() []Peer { return p.ledger.snapshot() }

// Accepted returns the number of connections accepted so far.
func (p *Proxy) Accepted() int64 {
	accepted, _ := p.ledger.counts()
	return accepted
}

// Conns returns the number of client connections open now.
func (p *Proxy) Conns() int {
	_, open := p.ledger.counts()
	return open
}

// Tunnels returns the number of tunnels open now.
func (p *Proxy) Tunnels() int { return int(p.tunnels.Load()) }

// DialedFrom returns our end of every connection made to a target, so that an origin can tell the proxy from others.
func (p *Proxy) DialedFrom() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.dialed)
}

// Faults returns what clients did that the proxy could not follow: TLS that failed, requests it could not parse.
func (p *Proxy) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.faults)
}

// DropConns closes every client connection at once, and their tunnels with them; the proxy goes on.
func (p *Proxy) DropConns() { p.ledger.drop() }

// record keeps a request. From then on it is changed by way of change only.
func (p *Proxy) record(r *Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = appendBounded(p.requests, r)
}

func (p *Proxy) change(r *Request, change func(*Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(r)
}

func (p *Proxy) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = appendBounded(p.faults, fmt.Sprintf(format, args...))
}
