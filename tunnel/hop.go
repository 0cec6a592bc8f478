package tunnel

import (
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// Dialect is how a proxy is spoken to.
type Dialect string

const (
	HTTP   Dialect = "http"   // CONNECT over HTTP/1.1
	HTTPS  Dialect = "https"  // CONNECT over HTTP/1.1 over TLS
	H2     Dialect = "h2"     // CONNECT over HTTP/2 over TLS; one connection carries many tunnels
	SOCKS5 Dialect = "socks5" // SOCKS5; names are resolved by the proxy
	Direct Dialect = "direct" // no proxy
)

// DefaultTimeout bounds a hop's handshake where the hop names no other limit.
const DefaultTimeout = 15 * time.Second

// Auth is a login at a proxy. It prints redacted.
type Auth struct {
	Username, Password string
}

// String shows that there is a login, and nothing of it.
func (a Auth) String() string { return "[redacted]" }

// GoString is String.
func (a Auth) GoString() string { return a.String() }

// Hop is one proxy on the way. It is only read, and may be shared by concurrent dials.
type Hop struct {
	// Name is what logs and errors call the hop. Empty: the dialect and the address.
	Name string

	Dialect Dialect

	// Network and Addr are where the hop listens: "tcp" (the default) with "host:port", or "unix" with a path.
	// Only the first hop may be on a Unix socket. Not used for Direct.
	Network, Addr string

	// Auth is sent as Basic credentials (HTTP, HTTPS, H2) or after RFC 1929 (SOCKS5: a user name of 1 to 255
	// bytes, a password of at most 255). Nil: no login.
	Auth *Auth

	// Header is sent with CONNECT and nowhere else. It may hold Proxy-Authorization if Auth is nil, but not Host
	// or what frames a message. Not used for SOCKS5.
	Header http.Header

	// TLS is the leg to this proxy, for HTTPS and H2. Nil: its certificate must carry the host in Addr and be
	// signed by one of the system's roots. An empty ServerName means that host. NextProtos is the dialect's
	// business, but HTTPS honours one that is not nil.
	TLS *tlsuser.Config

	// Timeout bounds the hop's whole handshake, TLS to the proxy and the wait for its answer included.
	// Zero: DefaultTimeout. Negative: only the ctx of the dial bounds it.
	Timeout time.Duration
}

// String is the hop's name, or its dialect and address; nothing secret.
func (h Hop) String() string {
	switch {
	case h.Name != "":
		return h.Name
	case h.Dialect == Direct:
		return string(Direct)
	case h.Network == "unix":
		return string(h.Dialect) + "://unix/" + h.Addr
	}
	return string(h.Dialect) + "://" + h.Addr
}

// GoString is String.
func (h Hop) GoString() string { return h.String() }

// WriteIdentity writes everything that shapes a connection through the hop, credentials included, framed so that
// two different hops never write the same bytes. It is meant for a keyed hash, and ignores errors of w. Name and
// Timeout shape no connection and are left out. See [tlsuser.Config.WriteIdentity] for what that takes of TLS.
func (h *Hop) WriteIdentity(w io.Writer) {
	writeText(w, "hop")
	writeText(w, string(h.Dialect))
	writeText(w, h.network())
	writeText(w, h.Addr)
	if h.Auth == nil {
		writeNumber(w, 0)
	} else {
		writeNumber(w, 1)
		writeText(w, h.Auth.Username)
		writeText(w, h.Auth.Password)
	}
	writeNumber(w, uint64(len(h.Header)))
	for _, name := range slices.Sorted(maps.Keys(h.Header)) {
		writeText(w, name)
		writeNumber(w, uint64(len(h.Header[name])))
		for _, value := range h.Header[name] {
			writeText(w, value)
		}
	}
	h.TLS.WriteIdentity(w)
}

func writeText(w io.Writer, s string) {
	writeNumber(w, uint64(len(s)))
	_, _ = io.WriteString(w, s)
}

func writeNumber(w io.Writer, n uint64) {
	_, _ = w.Write(binary.BigEndian.AppendUint64(nil, n))
}

func (h *Hop) network() string {
	if h.Network == "" {
		return "tcp"
	}
	return h.Network
}

// timeout is the time left for the hop's handshake after some was spent; false if nothing bounds it.
func (h *Hop) timeout(spent time.Duration) (time.Duration, bool) {
	switch {
	case h.Timeout < 0:
		return 0, false
	case h.Timeout == 0:
		return DefaultTimeout - spent, true
	}
	return h.Timeout - spent, true
}

// tls is the hop's TLS with what the dialect and the address add.
func (h *Hop) tls() *tlsuser.Config {
	var cfg tlsuser.Config
	if h.TLS != nil {
		cfg = *h.TLS
	}
	if cfg.ServerName == "" && h.network() != "unix" {
		cfg.ServerName, _, _ = net.SplitHostPort(h.Addr)
	}
	switch {
	case h.Dialect == H2:
		cfg.NextProtos = []string{"h2"}
	case cfg.NextProtos == nil:
		cfg.NextProtos = []string{"http/1.1"}
	}
	return &cfg
}

func (h *Hop) usesTLS() bool { return h.Dialect == HTTPS || h.Dialect == H2 }
