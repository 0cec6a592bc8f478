package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// Dialect is the way in which a proxy is asked for a tunnel.
type Dialect string

const (
	HTTP   Dialect = "http"   // CONNECT over HTTP/1.1
	HTTPS  Dialect = "https"  // the same over TLS
	H2     Dialect = "h2"     // CONNECT over HTTP/2 over TLS
	SOCKS5 Dialect = "socks5" // RFC 1928
)

// ProxyConfig says what a [Proxy] is. Only Dialect is required.
type ProxyConfig struct {
	Dialect Dialect

	// Network and Addr say where it listens: "tcp" (the default) on a free port of 127.0.0.1 (the default), or
	// "unix" on a path, by default one in a new temporary directory.
	Network, Addr string

	// Username and Password are demanded of clients, by Basic or by RFC 1929; both empty: nothing is.
	Username, Password string

	// Authority signs the certificate of an https or h2 proxy; nil: a new one, apart from every origin's.
	Authority *Authority

	// Names are the names and addresses in the certificate; nil: proxy.test, localhost, 127.0.0.1, ::1.
	Names []string

	// ALPN are the protocols that an https or h2 proxy takes, in its order of preference; nil: http/1.1 or h2,
	// as the dialect says. Where h2 is chosen, the proxy speaks it.
	ALPN []string

	// ConfigureTLS may change the TLS configuration before the proxy starts; nil: as it is.
	ConfigureTLS func(*tls.Config)

	// MaxConcurrentStreams bounds the tunnels on an HTTP/2 connection; 0: net/http's default.
	MaxConcurrentStreams int

	// Hosts are the names the proxy knows, with their addresses, and "host:port" with such; others are looked up, except
	// that names below .test are 127.0.0.1.
	Hosts map[string]string

	// Allow decides which targets ("host:port") may be reached; nil: all of them.
	Allow func(target string) bool

	// Dial connects to targets; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Misbehave is what it does wrong from the start; the zero value: nothing.
	Misbehave Misbehave
}

// Request is one request for a tunnel, as a proxy saw it.
type Request struct {
	Proto      string      // HTTP/1.1, HTTP/2.0 or SOCKS5
	Method     string      // of HTTP; "CONNECT" for SOCKS
	Target     string      // host:port as asked for
	Host       string      // the Host header or :authority
	Header     http.Header // of HTTP, without Host
	User       string      // of Basic or of the SOCKS login
	Password   string
	Methods    []byte // the SOCKS authentication methods offered
	AddrType   byte   // of the SOCKS request: 1 IPv4, 3 name, 4 IPv6
	RemoteAddr string // the client's end of the connection it came in on
	LocalAddr  string // our end of the connection to the target; empty: none was made
	Status     int    // answered by HTTP; 0: nothing was
	Reply      byte   // answered by SOCKS
	Early      bool   // the client sent bytes for the tunnel before it was answered (not seen over HTTP/2)
}

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	Addr    string // host:port, or the path of the Unix socket
	Network string // tcp or unix
	Dialect Dialect

	config    ProxyConfig
	authority *Authority
	tls       *tls.Config // nil: none
	misbehave atomic.Pointer[Misbehave]
	listener  net.Listener
	h2        *h2Front // nil: no TLS
	dir       string   // of the socket, ours to remove; empty: none
	ledger    ledger
	tunnels   atomic.Int64

	mu       sync.Mutex
	requests []*Request
	dialed   []string
	faults   []string

	ctx     context.Context // of everything; ends when the proxy closes
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// NewProxy starts a proxy. The caller closes it.
func NewProxy(config ProxyConfig) (*Proxy, error) {
	p := &Proxy{config: config, Dialect: config.Dialect, Network: defaulted(config.Network, "tcp"), Addr: config.Addr}
	p.misbehave.Store(&config.Misbehave)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	switch config.Dialect {
	case HTTP, SOCKS5:
	case HTTPS, H2:
		if err := p.prepareTLS(); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w %q: it can be one of http, https, h2, socks5", ErrUnknownDialect, config.Dialect)
	}
	if err := p.listen(); err != nil {
		p.Close()
		return nil, err
	}
	if p.tls != nil {
		p.h2 = newH2Front(p)
	}
	p.running.Go(p.acceptAll)
	return p, nil
}

func (p *Proxy) prepareTLS() (err error) {
	p.authority = p.config.Authority
	if p.authority == nil {
		if p.authority, err = NewAuthority("Testbed Proxy CA"); err != nil {
			return err
		}
	}
	names := p.config.Names
	if names == nil {
		names = []string{"proxy.test", "localhost", "127.0.0.1", "::1"}
	}
	cert, err := p.authority.Issue(CertRequest{CommonName: "Testbed Proxy", Names: names})
	if err != nil {
		return err
	}
	alpn := p.config.ALPN
	if alpn == nil {
		alpn = []string{"http/1.1"}
		if p.Dialect == H2 {
			alpn = []string{"h2"}
		}
	}
	p.tls = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: alpn, GetConfigForClient: recordHello}
	if p.config.ConfigureTLS != nil {
		p.config.ConfigureTLS(p.tls)
	}
	return nil
}

func (p *Proxy) listen() (err error) {
	if p.Addr == "" {
		p.Addr = "127.0.0.1:0"
		if p.Network == "unix" {
			if p.dir, err = os.MkdirTemp("", "testbed"); err != nil {
				return fmt.Errorf("testbed: %w", err)
			}
			p.Addr = filepath.Join(p.dir, "proxy.sock")
		}
	}
	p.listener, err = net.Listen(p.Network, p.Addr)
	if err != nil {
		return fmt.Errorf("testbed: %s proxy: %w", p.Dialect, err)
	}
	p.Addr = p.listener.Addr().String()
	return nil
}

// URL is how a client's configuration names the proxy, without a login: scheme://host:port, or scheme://unix//path.
func (p *Proxy) URL() string {
	if p.Network == "unix" {
		return string(p.Dialect) + "://unix/" + p.Addr
	}
	return string(p.Dialect) + "://" + p.Addr
}

// CA returns a new pool with the certificate of the proxy's authority; nil for a dialect without TLS.
func (p *Proxy) CA() *x509.CertPool {
	if p.authority == nil {
		return nil
	}
	return p.authority.Pool()
}

// CAFile writes the certificate of the proxy's authority into dir, which must exist, and returns the file's path;
// empty for a dialect without TLS.
func (p *Proxy) CAFile(dir string) (string, error) {
	if p.authority == nil {
		return "", nil
	}
	return p.authority.WriteFile(dir)
}

// Authority returns the authority that signs for the proxy; nil for a dialect without TLS.
func (p *Proxy) Authority() *Authority { return p.authority }

// SetMisbehave changes what the proxy does wrong, for connections and tunnels to come.
func (p *Proxy) SetMisbehave(m Misbehave) { p.misbehave.Store(&m) }

// resolve turns the target into an address to dial.
func (p *Proxy) resolve(target string) string {
	if addr, ok := p.config.Hosts[target]; ok {
		return addr
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return target
	}
	if addr, ok := p.config.Hosts[host]; ok {
		return net.JoinHostPort(addr, port)
	}
	if strings.HasSuffix(host, ".test") {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return target
}

// dial connects to the request's target and records how.
func (p *Proxy) dial(ctx context.Context, r *Request) (net.Conn, error) {
	dial := p.config.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", p.resolve(r.Target))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r.LocalAddr = conn.LocalAddr().String()
	p.dialed = appendBounded(p.dialed, r.LocalAddr)
	return conn, nil
}

// Close closes the listener, every connection and every tunnel and returns when all have ended.
func (p *Proxy) Close() error {
	p.cancel()
	if p.listener != nil {
		_ = p.listener.Close() // nothing is lost with it
	}
	p.ledger.close()
	if p.h2 != nil {
		p.h2.close()
	}
	p.running.Wait()
	if p.dir != "" {
		return os.RemoveAll(p.dir)
	}
	return nil
}
