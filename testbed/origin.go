package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
)

// OriginConfig says what an [Origin] listens on. The zero value is ready to use.
type OriginConfig struct {
	// Addresses to listen on; empty: a free port of 127.0.0.1.
	Plain, TLS, TLSH1, ClientCert, Raw string

	// Socket is the path of a Unix socket on which the same is served as on Plain; empty: none.
	Socket string

	// Authority signs the origin's certificate and the client certificates that its ClientCert port accepts;
	// nil: a new one.
	Authority *Authority

	// Names are the names and addresses in the certificate; nil: localhost, origin.test, 127.0.0.1, ::1.
	Names []string

	// ConfigureTLS may change the configuration of every TLS port, which it gets with the port's name as in
	// Peer.Listener, before the port is opened; nil: as it is.
	ConfigureTLS func(listener string, cfg *tls.Config)

	// RequireProxyHeader closes connections that do not begin with a PROXY header. Otherwise the header may be there
	// or not; it is recorded when it is.
	RequireProxyHeader bool

	// Banner is what the Raw port sends before it has read anything; empty: nothing.
	Banner string

	// MaxConcurrentStreams bounds the streams of an HTTP/2 connection; 0: net/http's default.
	MaxConcurrentStreams int

	// Extra holds further handlers by http.ServeMux pattern. They are tried before the origin's own.
	Extra map[string]http.Handler

	// ErrorLog gets what net/http logs of bad clients; nil: it is dropped.
	ErrorLog *log.Logger
}

// Origin is a running origin. Its methods are safe for concurrent use.
type Origin struct {
	Plain      string // host:port: HTTP/1.1, and HTTP/2 by prior knowledge
	TLS        string // host:port: HTTP/1.1 and HTTP/2 by ALPN
	TLSH1      string // host:port: HTTP/1.1 over TLS; ALPN knows http/1.1 only
	ClientCert string // host:port: as TLS, for clients with a certificate of the authority only
	Raw        string // host:port: TCP echo that ends its direction when the client has ended the other
	Socket     string // path of the Unix socket; empty: none

	config    OriginConfig
	authority *Authority
	handler   http.Handler
	extra     *http.ServeMux
	bodies    bodyStore
	streams   eventStreams
	ledger    ledger

	mu       sync.Mutex // guards requests and closed
	requests []Saw
	closed   bool

	ctx       context.Context // of every request; ends when the origin closes
	cancel    context.CancelFunc
	servers   []*http.Server
	listeners []net.Listener
	running   sync.WaitGroup // listeners and handlers
}

// NewOrigin starts an origin. The caller closes it.
func NewOrigin(config OriginConfig) (*Origin, error) {
	o := &Origin{config: config, authority: config.Authority, extra: http.NewServeMux()}
	if o.authority == nil {
		var err error
		if o.authority, err = NewAuthority("Testbed Origin CA"); err != nil {
			return nil, err
		}
	}
	names := config.Names
	if names == nil {
		names = []string{"localhost", "origin.test", "127.0.0.1", "::1"}
	}
	cert, err := o.authority.Issue(CertRequest{CommonName: "Testbed Origin", Names: names})
	if err != nil {
		return nil, err
	}
	for pattern, handler := range config.Extra {
		o.extra.Handle(pattern, handler)
	}
	o.handler = newRoutes(o)
	o.ctx, o.cancel = context.WithCancel(context.Background())
	if err := o.listen(cert); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// listen opens every port.
func (o *Origin) listen(cert tls.Certificate) error {
	var h1, h12, cleartext http.Protocols
	h1.SetHTTP1(true)
	h12.SetHTTP1(true)
	h12.SetHTTP2(true)
	cleartext.SetHTTP1(true)
	cleartext.SetUnencryptedHTTP2(true)
	overTLS := func(name string, change func(*tls.Config)) *tls.Config {
		cfg := &tls.Config{Certificates: []tls.Certificate{cert}, GetConfigForClient: recordHello}
		if change != nil {
			change(cfg)
		}
		if o.config.ConfigureTLS != nil {
			o.config.ConfigureTLS(name, cfg)
		}
		return cfg
	}
	demandCert := func(cfg *tls.Config) {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		cfg.ClientCAs = o.authority.Pool()
	}
	for _, port := range []struct {
		name, network, addr string
		at                  *string
		protocols           *http.Protocols // nil: not HTTP
		cfg                 *tls.Config     // nil: no TLS
	}{
		{"plain", "tcp", o.config.Plain, &o.Plain, &cleartext, nil},
		{"tls", "tcp", o.config.TLS, &o.TLS, &h12, overTLS("tls", nil)},
		{"tlsh1", "tcp", o.config.TLSH1, &o.TLSH1, &h1, overTLS("tlsh1", nil)},
		{"clientcert", "tcp", o.config.ClientCert, &o.ClientCert, &h12, overTLS("clientcert", demandCert)},
		{"raw", "tcp", o.config.Raw, &o.Raw, nil, nil},
		{"socket", "unix", o.config.Socket, &o.Socket, &cleartext, nil},
	} {
		if port.addr == "" {
			if port.network == "unix" {
				continue
			}
			port.addr = "127.0.0.1:0"
		}
		l, err := net.Listen(port.network, port.addr)
		if err != nil {
			return fmt.Errorf("testbed: origin port %s: %w", port.name, err)
		}
		*port.at = l.Addr().String()
		o.listeners = append(o.listeners, l)
		seen := &seenListener{Listener: l, name: port.name, ledger: &o.ledger, require: o.config.RequireProxyHeader}
		if port.protocols == nil {
			o.running.Go(func() { o.serveRaw(seen) })
			continue
		}
		o.serve(seen, port.protocols, port.cfg)
	}
	return nil
}

// serve starts an HTTP server on l.
func (o *Origin) serve(l *seenListener, protocols *http.Protocols, cfg *tls.Config) {
	srv := &http.Server{
		Handler:     o,
		TLSConfig:   cfg,
		Protocols:   protocols,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: o.config.MaxConcurrentStreams},
		ErrorLog:    o.config.ErrorLog,
		BaseContext: func(net.Listener) context.Context { return o.ctx },
		ConnContext: withPeer,
	}
	if srv.ErrorLog == nil {
		srv.ErrorLog = log.New(io.Discard, "", 0)
	}
	o.servers = append(o.servers, srv)
	o.running.Go(func() {
		if cfg == nil {
			_ = srv.Serve(l) // ends when the origin closes
		} else {
			_ = srv.ServeTLS(l, "", "")
		}
	})
}

// ServeHTTP answers one request as the origin's ports do, and records it.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	countRequest(r)
	saw := see(r)
	o.mu.Lock()
	closed := o.closed
	if !closed {
		o.running.Add(1)
		o.requests = appendBounded(o.requests, saw)
	}
	o.mu.Unlock()
	if closed {
		panic(http.ErrAbortHandler)
	}
	defer o.running.Done()
	if h, pattern := o.extra.Handler(r); pattern != "" {
		h.ServeHTTP(w, r)
		return
	}
	o.handler.ServeHTTP(w, r)
}

// CA returns a new pool with the certificate of the origin's authority.
func (o *Origin) CA() *x509.CertPool { return o.authority.Pool() }

// CAPEM returns the certificate of the origin's authority in PEM.
func (o *Origin) CAPEM() []byte { return o.authority.PEM() }

// CAFile writes the certificate of the origin's authority into dir, which must exist, and returns the file's path.
func (o *Origin) CAFile(dir string) (string, error) { return o.authority.WriteFile(dir) }

// Authority returns the authority that signs for the origin.
func (o *Origin) Authority() *Authority { return o.authority }

// ClientCertificate returns a new certificate with this common name that the ClientCert port accepts.
func (o *Origin) ClientCertificate(commonName string) (tls.Certificate, error) {
	return o.authority.Issue(CertRequest{CommonName: commonName, Client: true})
}

// ClientCertFiles writes such a certificate and its key into dir, which must exist.
func (o *Origin) ClientCertFiles(dir string) (certFile, keyFile string, err error) {
	cert, err := o.ClientCertificate("Testbed Client")
	if err != nil {
		return "", "", err
	}
	return WriteCert(dir, "client", cert)
}

// Seen returns the connections that were accepted, in that order; the latest few thousand, see [Peer].
func (o *Origin) Seen() []Peer { return o.ledger.snapshot() }

// Accepted returns the number of connections accepted so far.
func (o *Origin) Accepted() int64 {
	accepted, _ := o.ledger.counts()
	return accepted
}

// Conns returns the number of connections open now.
func (o *Origin) Conns() int {
	_, open := o.ledger.counts()
	return open
}

// Requests returns the requests that came in, in that order; the latest few thousand. Headers are shared, not copied.
func (o *Origin) Requests() []Saw {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Saw(nil), o.requests...)
}

// Direct returns the connections that did not come out of one of these proxies, as far as those know by now: a proxy notes its
// end of a connection only after it was accepted here. Connections to the Unix socket are always direct.
func (o *Origin) Direct(proxies ...*Proxy) []Peer {
	seen := o.Seen()
	dialed := make(map[string]bool)
	for _, p := range proxies {
		for _, addr := range p.DialedFrom() {
			dialed[addr] = true
		}
	}
	var direct []Peer
	for _, peer := range seen {
		if !dialed[peer.RemoteAddr] {
			direct = append(direct, peer)
		}
	}
	return direct
}

// DropConns closes every open connection at once; the ports stay open.
func (o *Origin) DropConns() { o.ledger.drop() }

// Close closes the ports and every connection and returns when every handler has.
func (o *Origin) Close() error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.cancel()
	for _, l := range o.listeners {
		_ = l.Close() // also closed by its server
	}
	o.ledger.close()
	for _, srv := range o.servers {
		_ = srv.Close()
	}
	o.running.Wait()
	if o.Socket != "" {
		_ = os.Remove(o.Socket) // gone with its listener on most systems
	}
	return nil
}
