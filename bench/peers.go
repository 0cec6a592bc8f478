package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// addresses are where the peers listen: what they print when they are up.
type addresses struct {
	Plain   string `json:"plain"` // the origin: HTTP/1.1
	TLS     string `json:"tls"`   // the origin: HTTP/1.1 and HTTP/2 by ALPN
	Connect string `json:"connect"`
	SOCKS5  string `json:"socks5"`
	Control string `json:"control"` // answers GET /counts and POST /release
	CA      string `json:"ca"`      // of the origin, PEM
}

// Counts are what the peers saw so far.
type Counts struct {
	Requests map[string]int64 `json:"requests"` // at the origin, by protocol
	Resumed  int64            `json:"resumed"`  // requests on connections that resumed a TLS session
	Accepted int64            `json:"accepted"` // connections at the origin
	Tunnels  int64            `json:"tunnels"`  // asked for, at the proxies
	Open     int              `json:"open"`     // tunnels open now
	Held     int              `json:"held"`     // responses that wait for their release
}

// peerServer is the origin and the proxies.
type peerServer struct {
	origin *testbed.Origin
	proxy  *testbed.Proxy
	socks  *testbed.Proxy

	h1, h2, resumed, tunnels atomic.Int64

	mu      sync.Mutex // guards what follows
	release chan struct{}
	held    int
}

// ServePeers runs an origin and two proxies until in ends. The first line on out says where they are.
func ServePeers(in io.Reader, out io.Writer) (err error) {
	p := &peerServer{release: make(chan struct{})}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.start(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control := &http.Server{Handler: p.control(), ReadHeaderTimeout: time.Minute}
	defer control.Close()
	go func() { _ = control.Serve(l) }() // ends with Close
	up := addresses{p.origin.Plain, p.origin.TLS, p.proxy.Addr, p.socks.Addr, l.Addr().String(), string(p.origin.CAPEM())}
	if err := json.NewEncoder(out).Encode(up); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

func (p *peerServer) start() (err error) {
	p.origin, err = testbed.NewOrigin(testbed.OriginConfig{Extra: map[string]http.Handler{
		"GET /page/": http.HandlerFunc(p.page),
		"GET /hold/": http.HandlerFunc(p.hold),
	}})
	if err != nil {
		return err
	}
	count := func(string) bool {
		p.tunnels.Add(1)
		return true
	}
	if p.proxy, err = testbed.NewProxy(testbed.ProxyConfig{Dialect: testbed.HTTP, Allow: count}); err != nil {
		return err
	}
	p.socks, err = testbed.NewProxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Allow: count})
	return err
}

func (p *peerServer) close() error {
	var errs []error
	for _, proxy := range []*testbed.Proxy{p.proxy, p.socks} {
		if proxy != nil {
			errs = append(errs, proxy.Close())
		}
	}
	if p.origin != nil {
		errs = append(errs, p.origin.Close())
	}
	return errors.Join(errs...)
}

func (p *peerServer) count(r *http.Request) {
	if r.ProtoMajor == 2 {
		p.h2.Add(1)
	} else {
		p.h1.Add(1)
	}
	if r.TLS != nil && r.TLS.DidResume {
		p.resumed.Add(1)
	}
}

// page answers a page of the testbed, in the coding that the query names, with what the testbed says about it.
func (p *peerServer) page(w http.ResponseWriter, r *http.Request) {
	p.count(r)
	bytes := new(http.Request)
	*bytes = *r
	bytes.URL = &url.URL{Path: "/bytes/" + strings.TrimPrefix(r.URL.Path, "/page/"), RawQuery: r.URL.RawQuery}
	p.origin.ServeHTTP(w, bytes)
}

// hold answers a page, but its last byte only when all that are held are released.
func (p *peerServer) hold(w http.ResponseWriter, r *http.Request) {
	p.count(r)
	size, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/hold/"), 10, 64)
	if err != nil || size < 1 {
		http.Error(w, "size has to be a number", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.held++
	release := p.release
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.held--
		p.mu.Unlock()
	}()
	body := testbed.PageReader(size)
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if _, err := io.CopyN(w, body, size-1); err != nil || http.NewResponseController(w).Flush() != nil {
		return
	}
	select {
	case <-release:
		_, _ = io.Copy(w, body) // a client that has gone needs no byte
	case <-r.Context().Done():
	}
}

func (p *peerServer) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(Counts{
			Requests: map[string]int64{"HTTP/1.1": p.h1.Load(), "HTTP/2.0": p.h2.Load()},
			Resumed:  p.resumed.Load(),
			Accepted: p.origin.Accepted(),
			Tunnels:  p.tunnels.Load(),
			Open:     p.proxy.Tunnels() + p.socks.Tunnels(),
			Held:     held,
		})
	})
	mux.HandleFunc("POST /release", func(http.ResponseWriter, *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.release)
		p.release = make(chan struct{})
	})
	return mux
}

// peerProcess is the peers in a process of their own.
type peerProcess struct {
	addresses
	*process
}

// startPeers runs the command that calls ServePeers. The caller stops it.
func startPeers(ctx context.Context, command []string) (*peerProcess, error) {
	if len(command) == 0 {
		return nil, errors.New("no command that runs the peers")
	}
	p, err := startProcess(ctx, "", command[0], command[1:]...)
	if err != nil {
		return nil, err
	}
	up := &peerProcess{process: p}
	if err := json.NewDecoder(p.stdout).Decode(&up.addresses); err != nil {
		return nil, errors.Join(fmt.Errorf("the peers do not say where they are: %w", err), p.stop())
	}
	return up, nil
}

func (p *peerProcess) counts(ctx context.Context) (c Counts, err error) {
	body, err := get(ctx, "http://"+p.Control+"/counts")
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(body, &c)
}

func (p *peerProcess) releaseHeld(ctx context.Context) error {
	_, err := ask(ctx, http.MethodPost, "http://"+p.Control+"/release", http.NoBody)
	return err
}

func get(ctx context.Context, url string) ([]byte, error) {
	return ask(ctx, http.MethodGet, url, http.NoBody)
}

// ask sends a request to a server of this run's own, never through a proxy, and returns the body of a 2xx.
func ask(ctx context.Context, method, url string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	res, err := directly.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, res.Status, strings.TrimSpace(string(got)))
	}
	return got, err
}

var directly = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
