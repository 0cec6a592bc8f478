package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/caddytunnel/caddytunnel/body"
	"github.com/caddytunnel/caddytunnel/h1c"
	"github.com/caddytunnel/caddytunnel/h2c"
	"github.com/caddytunnel/caddytunnel/pool"
)

// A fetcher gets one page, over and over, on one connection.
type fetcher interface {
	fetch() error // one page to its end, and the connection before the first
	close() error
}

// A rung is a stack of layers.
type rung struct {
	name   string
	coding string // of the page; empty: none
	open   func(ctx context.Context, p *path, want page) fetcher
}

// A page is what a fetcher asks for.
type page struct {
	size   int64 // as the client gets it
	coding string
}

func (p page) path() string {
	if p.coding == "" {
		return fmt.Sprintf("/page/%d", p.size)
	}
	return fmt.Sprintf("/page/%d?coding=%s", p.size, p.coding)
}

// The names of rungs that others are compared with.
const (
	rungTLS     = "tls"
	rungH1      = "h1c"
	rungH1Again = "h1c again"
	rungPool    = "h1c, pool"
	rungNet1    = "net/http, HTTP/1.1"
)

// rungs are the ladder, from the socket upwards, and net/http beside it. One is there twice, as the null.
func rungs() []rung {
	return []rung{
		{"socket", "", openRaw((*path).bare, func(p *path) string { return p.plain })},
		{"socket, read-ahead", "", openRaw((*path).dial, func(p *path) string { return p.plain })},
		{rungTLS, "", openRawTLS((*path).bare)},
		{"tls, read-ahead", "", openRawTLS((*path).dial)},
		{rungH1, "", openEngine("http/1.1")},
		{rungH1Again, "", openEngine("http/1.1")},
		{"h2c", "", openEngine("h2")},
		{rungPool, "", openPool("http/1.1", "")},
		{"h2c, pool", "", openPool("h2", "")},
		{"h1c, pool, decode gzip", "gzip", openPool("http/1.1", "gzip")},
		{rungNet1, "", openNetHTTP("http/1.1", false)},
		{"net/http, HTTP/2", "", openNetHTTP("h2", false)},
		{"net/http, HTTP/1.1, decode gzip", "gzip", openNetHTTP("http/1.1", true)},
	}
}

// bufBytes is what is read at once, as much as reverse_proxy does.
const bufBytes = 32 << 10

// rawFetcher asks by the bytes of a request and reads as many bytes as the first answer had.
type rawFetcher struct {
	dial    func() (net.Conn, error)
	request []byte
	total   int // of the answer, head included; 0: not known yet
	conn    net.Conn
	buf     []byte
}

type dialFunc = func(p *path, ctx context.Context, addr string) (net.Conn, error)

func openRaw(dial dialFunc, addr func(*path) string) func(context.Context, *path, page) fetcher {
	return func(ctx context.Context, p *path, want page) fetcher {
		return newRawFetcher(want, func() (net.Conn, error) { return dial(p, ctx, addr(p)) })
	}
}

func openRawTLS(dial dialFunc) func(context.Context, *path, page) fetcher {
	sessions := tls.NewLRUClientSessionCache(4)
	return func(ctx context.Context, p *path, want page) fetcher {
		return newRawFetcher(want, func() (net.Conn, error) {
			conn, err := dial(p, ctx, p.tls)
			if err != nil {
				return nil, err
			}
			return p.client(ctx, conn, "http/1.1", sessions)
		})
	}
}

func newRawFetcher(want page, dial func() (net.Conn, error)) *rawFetcher {
	return &rawFetcher{dial: dial, request: pageRequest(originName, want.path()), buf: make([]byte, bufBytes)}
}

func (f *rawFetcher) fetch() (err error) {
	if f.conn == nil {
		if f.conn, err = f.dial(); err != nil {
			return err
		}
	}
	if _, err := f.conn.Write(f.request); err != nil {
		return err
	}
	got, head := 0, []byte(nil)
	for f.total == 0 || got < f.total {
		n, err := f.conn.Read(f.buf)
		got += n
		if f.total == 0 {
			head = append(head, f.buf[:n]...)
			if f.total, err = messageLength(head); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	if got != f.total {
		return fmt.Errorf("the answer has %d bytes, the first had %d", got, f.total)
	}
	return nil
}

// messageLength returns the length of the answer that begins with these bytes; 0: its head is not complete.
func messageLength(begin []byte) (int, error) {
	head := bytes.Index(begin, []byte("\r\n\r\n"))
	if head < 0 {
		return 0, nil
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(begin)), nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.ContentLength <= 0 {
		return 0, fmt.Errorf("the answer is %s with Content-Length %d", res.Status, res.ContentLength)
	}
	return head + 4 + int(res.ContentLength), nil
}

func (f *rawFetcher) close() error {
	if f.conn == nil {
		return nil
	}
	return f.conn.Close()
}

// httpFetcher asks by a round trip.
type httpFetcher struct {
	do      func(*http.Request) (*http.Response, error)
	req     *http.Request
	proto   int
	size    int64
	buf     []byte
	cancel  context.CancelFunc
	closing func() error
}

// newHTTPFetcher prepares one request, for which the caller's ctx can end as those of a server do.
func newHTTPFetcher(ctx context.Context, p *path, want page, proto string) *httpFetcher {
	ctx, cancel := context.WithCancel(ctx)
	f := &httpFetcher{proto: 1, size: want.size, buf: make([]byte, bufBytes), cancel: cancel}
	if proto == "h2" {
		f.proto = 2
	}
	f.req, _ = http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.tls+want.path(), http.NoBody) // it is valid
	f.req.Header.Set("User-Agent", "bench")
	return f
}

func (f *httpFetcher) fetch() error {
	res, err := f.do(f.req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var n int64
	for err == nil {
		var k int
		k, err = res.Body.Read(f.buf)
		n += int64(k)
	}
	switch {
	case err != io.EOF:
		return err
	case res.StatusCode != http.StatusOK || res.ProtoMajor != f.proto || res.Header.Get("Content-Encoding") != "":
		return fmt.Errorf("the answer is %s %s with content coding %q", res.Proto, res.Status, res.Header.Get("Content-Encoding"))
	case n != f.size:
		return fmt.Errorf("the body has %d bytes, not %d", n, f.size)
	}
	return nil
}

func (f *httpFetcher) close() error {
	defer f.cancel()
	if f.closing == nil {
		return nil
	}
	return f.closing()
}

// speak starts HTTP on a connection to the origin.
func (p *path) speak(ctx context.Context, proto string, sessions tls.ClientSessionCache) (pool.Conn, error) {
	conn, err := p.secure(ctx, proto, sessions)
	if err != nil {
		return nil, err
	}
	if proto == "h2" {
		return h2c.New(ctx, conn, nil)
	}
	return h1c.New(conn, nil)
}

func openEngine(proto string) func(context.Context, *path, page) fetcher {
	sessions := tls.NewLRUClientSessionCache(4)
	return func(ctx context.Context, p *path, want page) fetcher {
		f := newHTTPFetcher(ctx, p, want, proto)
		f.req.Header.Set("Accept-Encoding", "identity")
		conn := sync.OnceValues(func() (pool.Conn, error) { return p.speak(ctx, proto, sessions) })
		f.do = func(req *http.Request) (*http.Response, error) {
			c, err := conn()
			if err != nil {
				return nil, err
			}
			if !c.Reserve() {
				return nil, errors.Join(errors.New("no slot on the connection"), c.Err())
			}
			return c.RoundTrip(req)
		}
		f.closing = func() error {
			c, err := conn()
			if err != nil {
				return err
			}
			return c.Close()
		}
		return f
	}
}

func openPool(proto, coding string) func(context.Context, *path, page) fetcher {
	sessions := tls.NewLRUClientSessionCache(4)
	return func(ctx context.Context, p *path, want page) fetcher {
		f := newHTTPFetcher(ctx, p, want, proto)
		f.req.Header.Set("Accept-Encoding", "identity")
		guard := &body.Guard{}
		if coding != "" {
			guard.Decode = []body.Coding{body.Coding(coding)}
			f.req.Header.Del("Accept-Encoding")
			guard.Request(f.req.Header)
		}
		conns := pool.New(pool.Options{})
		key := pool.Identity{Addr: p.tls}
		dial := func(ctx context.Context, _ *pool.Memory) (pool.Conn, error) {
			return p.speak(ctx, proto, sessions)
		}
		f.do = func(req *http.Request) (*http.Response, error) {
			res, err := conns.RoundTrip(req, key, dial, nil)
			if err != nil {
				return nil, err
			}
			return res, guard.Response(req, res)
		}
		f.closing = func() error {
			conns.Close()
			return nil
		}
		return f
	}
}

func openNetHTTP(proto string, decode bool) func(context.Context, *path, page) fetcher {
	sessions := tls.NewLRUClientSessionCache(4)
	return func(ctx context.Context, p *path, want page) fetcher {
		f := newHTTPFetcher(ctx, p, want, proto)
		if !decode {
			f.req.Header.Set("Accept-Encoding", "identity")
		}
		t := p.transport(proto, decode)
		t.TLSClientConfig.ClientSessionCache = sessions
		f.do = t.RoundTrip
		f.closing = func() error {
			t.CloseIdleConnections()
			return nil
		}
		return f
	}
}
