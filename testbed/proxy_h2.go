package testbed

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"sync"
)

// h2Front serves connections on which HTTP/2 was chosen. It is the listener of its server.
type h2Front struct {
	proxy    *Proxy
	server   *http.Server
	conns    chan net.Conn
	once     sync.Once
	finished chan struct{}

	mu     sync.Mutex // guards closed, and with it running from growing while Close waits
	closed bool
}

func newH2Front(p *Proxy) *h2Front {
	f := &h2Front{proxy: p, conns: make(chan net.Conn), finished: make(chan struct{})}
	f.server = &http.Server{
		Handler:     http.HandlerFunc(f.handle),
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: p.config.MaxConcurrentStreams},
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnContext: withPeer,
	}
	p.running.Go(func() { _ = f.server.Serve(f) }) // ends when the proxy closes
	return f
}

// take hands a connection to the server, which closes it from then on; false: the front is closed.
func (f *h2Front) take(conn *tls.Conn) bool {
	select {
	case f.conns <- conn:
		return true
	case <-f.finished:
		return false
	}
}

// Accept returns the next connection handed over.
func (f *h2Front) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.finished:
		return nil, net.ErrClosed
	}
}

// Addr is the proxy's.
func (f *h2Front) Addr() net.Addr { return f.proxy.listener.Addr() }

// Close makes Accept fail.
func (f *h2Front) Close() error {
	f.once.Do(func() { close(f.finished) })
	return nil
}

func (f *h2Front) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	_ = f.Close()
	_ = f.server.Close() // the connections are closed already
}

// handle answers one CONNECT and carries its tunnel.
func (f *h2Front) handle(w http.ResponseWriter, req *http.Request) {
	p := f.proxy
	f.mu.Lock()
	closed := f.closed
	if !closed {
		p.running.Add(1)
	}
	f.mu.Unlock()
	if closed {
		panic(http.ErrAbortHandler)
	}
	defer p.running.Done()

	m := p.misbehave.Load()
	r := httpRequest(req)
	p.record(r)
	countRequest(req)
	if m.Silent == AtRequest {
		hold(req.Body)
		<-req.Context().Done()
	}
	if m.Close == AtRequest || !pause(req.Context(), m.Delay) {
		panic(http.ErrAbortHandler)
	}
	status, header, body := p.judge(m, r)
	var target net.Conn
	if status/100 == 2 {
		var err error
		if target, err = p.dial(req.Context(), r); err != nil {
			status, body = dialStatus(err), err.Error()
		} else {
			defer target.Close()
		}
	}
	p.change(r, func(r *Request) { r.Status = status })
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	if target == nil {
		_, _ = io.WriteString(w, body) // a client that has gone needs no answer
		return
	}
	stream := &serverStream{body: req.Body, w: w, control: http.NewResponseController(w)}
	if stream.control.Flush() != nil {
		return
	}
	if !p.relay(stream, target, m.CutAfter) {
		panic(http.ErrAbortHandler)
	}
}

// serverStream is the stream of a CONNECT from the proxy's side. Its own direction ends only with the handler, which
// ends both: net/http's server knows no other way.
type serverStream struct {
	body    io.ReadCloser
	w       io.Writer
	control *http.ResponseController
}

func (s *serverStream) Read(b []byte) (int, error) { return s.body.Read(b) }

func (s *serverStream) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	return n, firstError(err, s.control.Flush())
}

// abort ends reading; the stream itself ends with the handler.
func (s *serverStream) abort(bool) { _ = s.body.Close() }

var errNoHalfClose = errors.New("testbed: a server's stream cannot end its direction alone")

// CloseWrite tells the relay that ending this direction means ending the tunnel.
func (s *serverStream) CloseWrite() error { return errNoHalfClose }
