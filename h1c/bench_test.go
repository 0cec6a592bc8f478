package h1c

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

var benchSizes = []int{1 << 10, 64 << 10, 4 << 20}

func sizeName(n int) string {
	if n >= 1<<20 {
		return strconv.Itoa(n>>20) + "MiB"
	}
	return strconv.Itoa(n>>10) + "KiB"
}

// secured gives both ends of TLS over TCP, below which the near end reads ahead or not.
func secured(b *testing.B, beneath func(net.Conn) net.Conn) (near, far net.Conn) {
	b.Helper()
	near, far = tlsOver(b, tls.VersionTLS13, beneath)
	b.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// serve answers each request by the same bytes, and does next to nothing else.
func serve(conn net.Conn, reply []byte) {
	buf := make([]byte, 4<<10)
	for n := 0; ; {
		m, err := conn.Read(buf[n:])
		if err != nil {
			return
		}
		if n += m; string(buf[n-4:n]) != "\r\n\r\n" {
			continue
		}
		n = 0
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// answer is a response with fields as they are usual.
func answer(size int) []byte {
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: text/html\r\n"+
		"Content-Length: %d\r\nConnection: keep-alive\r\nETag: \"65a1b2c3-400\"\r\nAccept-Ranges: bytes\r\n\r\n", size)
	return append([]byte(head), make([]byte, size)...)
}

func benchRequest(b *testing.B) *http.Request {
	req := get(b, "/path/of/the/resource?with=a&query")
	req.Header = http.Header{
		"Accept": {"*/*"}, "Accept-Encoding": {"gzip, br"}, "User-Agent": {"Mozilla/5.0"},
		"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"origin.test"},
	}
	return req
}

// BenchmarkEngine compares the engine with net/http's Transport, over TLS.
func BenchmarkEngine(b *testing.B) {
	for _, size := range benchSizes {
		b.Run("h1c/"+sizeName(size), func(b *testing.B) {
			near, far := secured(b, ahead)
			go serve(far, answer(size))
			c, _ := New(near, nil)
			defer c.Close()
			benchRoundTrips(b, size, func(req *http.Request) (*http.Response, error) {
				reserve(b, c)
				return c.RoundTrip(req)
			})
		})
		b.Run("net_http/"+sizeName(size), func(b *testing.B) {
			near, far := secured(b, plainConn)
			go serve(far, answer(size))
			// The conn is TLS already, for which the Transport need not know.
			t := &http.Transport{DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
			defer t.CloseIdleConnections()
			benchRoundTrips(b, size, t.RoundTrip)
		})
	}
}

func benchRoundTrips(b *testing.B, size int, roundTrip func(*http.Request) (*http.Response, error)) {
	req := benchRequest(b)
	buf := make([]byte, 32<<10)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		res, err := roundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{res.Body}, buf)
		if res.Body.Close(); n != int64(size) || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkEngineAlone compares the engines on a conn of memory, so that neither TLS nor the kernel counts.
func BenchmarkEngineAlone(b *testing.B) {
	for _, size := range benchSizes[:2] {
		b.Run("h1c/"+sizeName(size), func(b *testing.B) {
			c, _ := New(newMemory(answer(size)), nil)
			defer c.Close()
			benchRoundTrips(b, size, func(req *http.Request) (*http.Response, error) {
				reserve(b, c)
				return c.RoundTrip(req)
			})
		})
		b.Run("net_http/"+sizeName(size), func(b *testing.B) {
			near := newMemory(answer(size))
			t := &http.Transport{DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
			defer t.CloseIdleConnections()
			benchRoundTrips(b, size, t.RoundTrip)
		})
	}
}

// memory is a conn that answers every write by the same bytes.
type memory struct {
	net.Conn
	reply  []byte
	left   []byte
	writes chan struct{}
	closed chan struct{}
}

func newMemory(reply []byte) *memory {
	return &memory{reply: reply, writes: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (m *memory) Write(p []byte) (int, error) {
	m.writes <- struct{}{}
	return len(p), nil
}

func (m *memory) Read(p []byte) (int, error) {
	if len(m.left) == 0 {
		select {
		case <-m.writes:
			m.left = m.reply
		case <-m.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

func (m *memory) Close() error {
	close(m.closed)
	return nil
}

func (m *memory) SetReadDeadline(time.Time) error { return nil }

// BenchmarkRawTLS is what is beneath: the same bytes, written and read without HTTP.
func BenchmarkRawTLS(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			near, far := secured(b, plainConn)
			reply := answer(size)
			go serve(far, reply)
			request := []byte("GET / HTTP/1.1\r\nHost: origin.test\r\n\r\n")
			buf := make([]byte, 32<<10)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := near.Write(request); err != nil {
					b.Fatal(err)
				}
				for n := 0; n < len(reply); {
					m, err := near.Read(buf)
					if err != nil {
						b.Fatal(err)
					}
					n += m
				}
			}
		})
	}
}
