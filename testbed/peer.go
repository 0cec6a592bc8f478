package testbed

import (
	"crypto/tls"
	"net"
	"slices"
	"sync"
)

// Peer is one connection that an [Origin] or a [Proxy] accepted, as far as it is known by now.
type Peer struct {
	Listener    string // which port of an origin: plain, tls, tlsh1, clientcert, raw, socket; of a proxy its dialect
	RemoteAddr  string // the other end; empty or "@" on a Unix socket
	LocalAddr   string
	ProxyHeader string // the source address of a PROXY header, "LOCAL" or "UNKNOWN" where it names none; empty: there was no header
	TLS         *Hello // nil before a ClientHello was read
	Requests    int    // of HTTP, or of tunnels
	Open        bool
}

// Hello is what a TLS client offered and what came of it.
type Hello struct {
	ServerName string   // SNI; empty: none sent
	Offered    []string // ALPN
	Complete   bool     // the handshake was; the fields below are zero before
	ALPN       string   // chosen; empty: none
	Resumed    bool
	ClientCert string // subject of the client's certificate; empty: none presented
}

// maxRecords bounds what an origin or a proxy remembers; the oldest are forgotten.
const maxRecords = 1 << 12

// ledger records the connections that listeners accept and closes them all in the end. The zero value is ready.
type ledger struct {
	mu       sync.Mutex
	closed   bool
	accepted int64
	peers    []*peer
	open     map[*peer]struct{}
}

// peer is the state of one accepted connection. The ledger's mutex guards info.
type peer struct {
	*ledger
	conn net.Conn
	info Peer
}

// accept records conn. It reports false, and closes conn, when the ledger is closed.
func (l *ledger) accept(conn net.Conn, listener string) (*peer, bool) {
	p := &peer{ledger: l, conn: conn, info: Peer{Listener: listener, LocalAddr: conn.LocalAddr().String(), Open: true}}
	if addr := conn.RemoteAddr(); addr != nil {
		p.info.RemoteAddr = addr.String()
	}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.accepted++
		l.peers = appendBounded(l.peers, p)
		if l.open == nil {
			l.open = make(map[*peer]struct{})
		}
		l.open[p] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		conn.Close()
	}
	return p, !closed
}

// update changes what is known of the peer.
func (p *peer) update(change func(*Peer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.info)
}

// ended records that the connection is closed.
func (p *peer) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info.Open = false
	delete(p.ledger.open, p)
}

// snapshot returns the peers in the order in which they were accepted.
func (l *ledger) snapshot() []Peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	peers := make([]Peer, len(l.peers))
	for i, p := range l.peers {
		peers[i] = p.info
		if p.info.TLS != nil {
			hello := *p.info.TLS
			hello.Offered = slices.Clone(hello.Offered)
			peers[i].TLS = &hello
		}
	}
	return peers
}

func (l *ledger) counts() (accepted int64, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted, len(l.open)
}

// drop closes every open connection.
func (l *ledger) drop() {
	l.mu.Lock()
	conns := make([]net.Conn, 0, len(l.open))
	for p := range l.open {
		conns = append(conns, p.conn)
	}
	l.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
	}
}

// close closes every open connection and every one accepted from now on.
func (l *ledger) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.drop()
}

// hello records what the client offered.
func (p *peer) hello(info *tls.ClientHelloInfo) {
	p.update(func(peer *Peer) {
		peer.TLS = &Hello{ServerName: info.ServerName, Offered: slices.Clone(info.SupportedProtos)}
	})
}

// handshake records what came of the handshake.
func (p *peer) handshake(state tls.ConnectionState) {
	p.update(func(peer *Peer) {
		if peer.TLS == nil || peer.TLS.Complete {
			return
		}
		peer.TLS.Complete = true
		peer.TLS.ALPN = state.NegotiatedProtocol
		peer.TLS.Resumed = state.DidResume
		if len(state.PeerCertificates) > 0 {
			peer.TLS.ClientCert = state.PeerCertificates[0].Subject.String()
		}
	})
}

// appendBounded appends and forgets the older half beyond maxRecords.
func appendBounded[T any](list []T, item T) []T {
	if len(list) >= maxRecords {
		list = append(list[:0:0], list[len(list)/2:]...)
	}
	return append(list, item)
}
