package bench

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A load is clients that ask a server for one page, over and over, each on a connection of its own.
type load struct {
	addr    string // host:port of an HTTP/1.1 server
	path    string
	size    int64 // of the page
	clients int
}

// loadClient is one client. It does little, so that there is CPU left for what is measured.
type loadClient struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	buf     []byte
	size    int64

	latencies []time.Duration // of each request since they were last taken
}

// dial connects the clients.
func (l load) dial(ctx context.Context) ([]*loadClient, error) {
	var clients []*loadClient
	for range l.clients {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.addr)
		if err != nil {
			closeAll(clients)
			return nil, err
		}
		clients = append(clients, &loadClient{
			conn:    conn,
			in:      bufio.NewReaderSize(conn, 64<<10),
			request: pageRequest(l.addr, l.path),
			buf:     make([]byte, 64<<10),
			size:    l.size,
		})
	}
	return clients, nil
}

// pageRequest is a request as it is on the wire. It asks for no coding, and keeps clients that add one from doing so.
func pageRequest(host, path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAccept-Encoding: identity\r\n\r\n", path, host)
}

// do is one request. Its body goes to sink.
func (c *loadClient) do(sink io.Writer) error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{sink}, res.Body, c.buf)
	switch coding := res.Header.Get("Content-Encoding"); {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK || coding != "":
		return fmt.Errorf("the answer is %s with content coding %q", res.Status, coding)
	case n != c.size:
		return fmt.Errorf("the body has %d bytes, not %d", n, c.size)
	}
	return nil
}

// verify does one request and compares the body with the testbed's page.
func (c *loadClient) verify() error {
	hash := sha256.New()
	if err := c.do(hash); err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != testbed.PageSum(c.size) {
		return fmt.Errorf("the body of %d bytes is not the page, its SHA-256 is %s", c.size, sum)
	}
	return nil
}

// run lets all clients ask until stop is set, and each at least n times.
func run(clients []*loadClient, n int, stop *atomic.Bool) error {
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for k := 0; k < n || !stop.Load(); k++ {
				start := time.Now()
				if errs[i] = c.do(io.Discard); errs[i] != nil {
					stop.Store(true)
					return
				}
				c.latencies = append(c.latencies, time.Since(start))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// repeat lets each client ask n times.
func repeat(clients []*loadClient, n int) error {
	var stop atomic.Bool
	stop.Store(true)
	return run(clients, n, &stop)
}

// take returns the latencies of all clients' requests, in milliseconds, and forgets them.
func take(clients []*loadClient) []float64 {
	var all []float64
	for _, c := range clients {
		for _, d := range c.latencies {
			all = append(all, d.Seconds()*1e3)
		}
		c.latencies = c.latencies[:0]
	}
	return all
}

func closeAll(clients []*loadClient) {
	for _, c := range clients {
		c.conn.Close()
	}
}
