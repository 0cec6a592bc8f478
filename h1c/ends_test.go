package h1c

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntilClose ends a body that the connection's end ends in the moment in which that comes, whatever the timeouts, and not before.
func TestUntilClose(t *testing.T) {
	for name, head := range map[string]string{
		"close":      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
		"keep-alive": "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n",
		"1.0":        "HTTP/1.0 200 OK\r\n\r\n",
	} {
		t.Run("B29_"+name, func(t *testing.T) {
			eachInTime(t, func(t *testing.T, e engine) {
				c := e.pipe(t, &Config{ReadTimeout: time.Minute, ResponseHeaderTimeout: time.Minute}, func(p *peer) {
					p.request()
					p.send(head + "hello")
					time.Sleep(time.Second)
					p.send(" world")
				})
				reserve(t, c)
				start := time.Now()
				res, err := c.RoundTrip(get(t, "/"))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if err != nil || string(got) != "hello world" || res.ContentLength != -1 {
					t.Errorf("%q, %v, length %d", got, err, res.ContentLength)
				}
				if took := time.Since(start); took != time.Second {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
				if c.Err() == nil {
					t.Error("the connection can be used again")
				}
			})
		})
	}
}

// TestShortBodies has bodies that end too early.
func TestShortBodies(t *testing.T) {
	for name, answer := range map[string]string{
		"length_none": "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n",
		"length_part": "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\nhello",
		"chunk_edge":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"chunk_part":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"chunk_last":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
	} {
		t.Run("B26_"+name, func(t *testing.T) {
			c := own.over(t, nil, func(p *peer) { p.request(); p.send(answer) })
			reserve(t, c)
			res, err := c.RoundTrip(get(t, "/"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			_, err = io.Copy(io.Discard, res.Body)
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("%v", err)
			}
			if n, again := res.Body.Read(make([]byte, 1)); n > 0 || again == nil || again == io.EOF {
				t.Errorf("then %d, %v", n, again)
			}
		})
	}
}

// shortConn takes less of a write than it is given, without an error.
type shortConn struct{ net.Conn }

func (c shortConn) Write(p []byte) (int, error) { return c.Conn.Write(p[:min(len(p), 20<<10)]) }

// TestShortWrite fails a request whose body the conn takes a part of.
func TestShortWrite(t *testing.T) {
	const size = 38 << 10
	for name, length := range map[string]int64{"length": size, "chunked": -1} {
		t.Run("B25_"+name, func(t *testing.T) {
			each(t, func(t *testing.T, e engine) {
				near, far := net.Pipe()
				c := e.between(t, &Config{WriteBuffer: 32 << 10}, shortConn{near}, far, func(p *peer) {
					io.Copy(io.Discard, p.br)
				})
				reserve(t, c)
				if res, err := c.RoundTrip(post(t, io.LimitReader(zeros{}, size), length)); !errors.Is(err, io.ErrShortWrite) {
					t.Errorf("%v, %v", res, err)
				}
			})
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
