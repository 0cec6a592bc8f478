package caddymodule

import (
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/tlsuser"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

// A need is everything that one request asks of a connection: together it is the request's identity. Two requests
// share a connection only where all of it is equal.
type need struct {
	network, addr string // of the origin
	scheme        string
	hops          []tunnel.Hop
	tls           *tlsuser.Config // nil: cleartext
	h2c           bool            // HTTP/2 by prior knowledge; cleartext only
	http11        bool            // HTTP/1.1 will do where the origin requires it
	proxyHeader   []byte          // PROXY protocol; nil: none
	pingIdle      time.Duration   // how long HTTP/2 may be silent; negative: for ever
}

// The variables that reverse_proxy leaves for its transport. Their names are not exported there.
const (
	varProxyProtocolInfo = "reverse_proxy.proxy_protocol_info"
	varHTTP1Only         = "reverse_proxy.tls_h1_only"
)

// need finds out what the request asks for. Nothing is taken from the client's Host header or from req.URL.Host, which
// is not an address where PROXY protocol is on.
func (t *Transport) need(req *http.Request) (*need, error) {
	ctx := req.Context()
	di, ok := reverseproxy.GetDialInfo(ctx)
	if !ok {
		return nil, configError("no_upstream", "", fmt.Errorf("the request carries no upstream address: this transport serves reverse_proxy only"))
	}
	n := &need{network: di.Network, addr: di.Address, scheme: req.URL.Scheme, pingIdle: t.Ping.idleFor(req)}
	if n.scheme == "" {
		n.scheme = "http"
		if t.useTLS(di.Port) {
			n.scheme = "https"
		}
	}
	host, port := di.Host, di.Port
	switch di.Network {
	case "", "tcp", "tcp4", "tcp6":
		if port == "" || port == "0" {
			port = map[string]string{"http": "80", "https": "443"}[n.scheme]
		}
		n.addr = net.JoinHostPort(host, port)
	case "unix":
	default:
		return nil, configError("upstream_network", di.Address, fmt.Errorf("upstream network %q cannot be reached by this transport", di.Network))
	}
	repl, _ := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	var err error
	if n.hops, err = t.way.expand(repl, host, port); err != nil {
		return nil, configError("placeholder_failed", n.addr, err)
	}
	upgrade := req.Header.Get("Upgrade") != "" || caddyhttp.GetVar(ctx, varHTTP1Only) == true
	if n.scheme == "https" {
		origin := t.origin
		if origin == nil {
			origin = new(tlsTemplate)
		}
		if n.tls, err = origin.expand(repl, host); err != nil {
			return nil, configError("placeholder_failed", n.addr, err)
		}
		n.tls.NextProtos = t.alpn(upgrade)
		n.http11 = true // it is in every offer
	} else {
		n.h2c = !upgrade && slices.Contains(t.Versions, versionH2C)
		n.http11 = !n.h2c || slices.Contains(t.Versions, version11)
	}
	if t.ProxyProtocol != "" {
		client, relayed := caddyhttp.GetVar(ctx, varProxyProtocolInfo).(reverseproxy.ProxyProtocolInfo)
		if n.proxyHeader, err = proxyHeader(t.ProxyProtocol, client.AddrPort, relayed); err != nil {
			return nil, configError("proxy_protocol", n.addr, err)
		}
	}
	return n, nil
}

// alpn returns the protocols offered to the origin. An upgrade needs HTTP/1.1.
func (t *Transport) alpn(upgrade bool) []string {
	if upgrade || len(t.Versions) > 0 && !slices.Contains(t.Versions, version2) {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

// identity is the pool's key for n: an HMAC, since credentials are part of it.
func (t *Transport) identity(n *need) pool.Identity {
	h := t.macs.Get().(hash.Hash)
	defer t.macs.Put(h)
	h.Reset()
	for _, s := range []string{n.network, n.addr, n.scheme, string(n.proxyHeader)} {
		writeString(h, s)
	}
	writeBool(h, n.h2c)
	writeNumber(h, uint64(n.pingIdle))
	writeBool(h, n.tls != nil)
	if n.tls != nil {
		n.tls.WriteIdentity(h)
	}
	for i := range n.hops {
		n.hops[i].WriteIdentity(h)
	}
	id := pool.Identity{Addr: n.network + "/" + n.addr, HTTP11: n.http11}
	switch {
	case n.h2c:
		id.Sharing = pool.Shared
	case n.tls != nil && slices.Contains(n.tls.NextProtos, "h2"):
		id.Sharing = pool.AsLastTime
	}
	h.Sum(id.Key[:0])
	return id
}

func writeString(w hash.Hash, s string) {
	writeNumber(w, uint64(len(s)))
	io.WriteString(w, s)
}

func writeNumber(w hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	w.Write(b[:])
}

func writeBool(w hash.Hash, b bool) {
	if b {
		w.Write([]byte{1})
	} else {
		w.Write([]byte{0})
	}
}

// hopNames describes the way for logs.
func (n *need) hopNames() string {
	names := make([]string, len(n.hops))
	for i := range n.hops {
		names[i] = n.hops[i].String()
	}
	return strings.Join(names, " then ")
}

// hostOf returns the host part of an address.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
