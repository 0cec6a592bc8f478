package h2c

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func connect(t *testing.T, c *Conn) net.Conn {
	t.Helper()
	reserve(t, c)
	conn, res, err := c.Connect(t.Context(), "origin.test:443", http.Header{"Proxy-Authorization": {"Basic x"}})
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	return conn
}

// accept reads a CONNECT and answers it.
func (p *peer) accept(status string) uint32 {
	f := p.request()
	if f.PseudoValue("method") != "CONNECT" || f.PseudoValue("authority") != "origin.test:443" || f.PseudoValue("path") != "" || f.StreamEnded() {
		p.t.Errorf("peer got %v", f)
	}
	if status != "" {
		p.head(f.StreamID, false, ":status", status)
	}
	return f.StreamID
}

// body reads a stream's bytes up to END_STREAM or RST_STREAM.
func (p *peer) body(id uint32) (data []byte, end http2.Frame) {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return data, nil
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			data = append(data, f.Data()...)
			if n := uint32(len(f.Data())); n > 0 {
				p.WriteWindowUpdate(0, n)
				p.WriteWindowUpdate(id, n)
			}
			if f.StreamEnded() {
				return data, f
			}
		case *http2.RSTStreamFrame:
			return data, f
		case *http2.PingFrame:
			if !f.IsAck() {
				p.WritePing(true, f.Data)
			}
		}
	}
}

func TestConnectRefused(t *testing.T) {
	for _, status := range []string{"403", "407", "302", "502"} {
		c := script(t, nil, func(p *peer) {
			p.WriteData(p.accept(status), true, []byte("<html>"))
			p.drain()
		})
		reserve(t, c)
		conn, res, err := c.Connect(t.Context(), "origin.test:443", nil)
		if conn != nil || err != nil || res.Status[:3] != status {
			t.Fatal(conn, res, err)
		}
		if body, _ := io.ReadAll(res.Body); len(body) > 0 {
			t.Error("the refusal's body is open")
		}
	}
}

func TestConnectFails(t *testing.T) {
	for name, test := range map[string]struct {
		peer func(*peer)
		want facts
	}{
		"refused":   {func(p *peer) { p.WriteRSTStream(p.accept(""), http2.ErrCodeRefusedStream); p.drain() }, facts{unprocessed: true, unanswered: true, refused: true}},
		"cut":       {func(p *peer) { p.accept("") }, facts{unanswered: true}},
		"connected": {func(p *peer) { p.WriteRSTStream(p.accept(""), http2.ErrCodeConnect); p.drain() }, facts{unanswered: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := script(t, nil, test.peer)
			reserve(t, c)
			_, _, err := c.Connect(t.Context(), "origin.test:443", nil)
			check(t, err, test.want)
		})
	}
}

func TestConnectIsBoundByContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, other := pipe()
		c := run(t, nil, conn, other, func(p *peer) {
			_, end := p.body(p.accept(""))
			if _, ok := end.(*http2.RSTStreamFrame); !ok {
				t.Errorf("the stream ended with %v", end)
			}
			p.drain()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reserve(t, c)
		_, _, err := c.Connect(ctx, "origin.test:443", nil)
		if !errors.Is(err, context.DeadlineExceeded) || !err.(*Error).Timeout() {
			t.Errorf("%T %v", err, err)
		}
		synctest.Wait()
		if c.Err() != nil {
			t.Error("the connection is dead")
		}
	})
}

func TestConnectOutlivesContext(t *testing.T) {
	c := script(t, nil, func(p *peer) {
		id := p.accept("200")
		data, _ := p.body(id)
		p.WriteData(id, true, data)
		p.drain()
	})
	ctx, cancel := context.WithCancel(t.Context())
	reserve(t, c)
	conn, _, err := c.Connect(ctx, "origin.test:443", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	conn.Write([]byte("hello"))
	conn.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after CloseWrite: %v", err)
	}
}

// Close delivers what was written, though it waits for a window.
func TestCloseSendsWhatWasWritten(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 20<<10) // more than the first window
	received := make(chan []byte, 1)
	c := script(t, nil, func(p *peer) {
		id := p.accept("200")
		got, end := p.body(id)
		if f, ok := end.(*http2.DataFrame); !ok || !f.StreamEnded() {
			t.Errorf("the stream ended with %v", end)
		}
		received <- got
		p.WriteData(id, true, nil)
		p.drain()
	})
	conn := connect(t, c)
	conn.Write(data)
	conn.Close()
	if got := <-received; !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes", len(got), len(data))
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

// A peer that goes on sending to a closed stream is told to stop; one that is silent is given some time.
func TestCloseResetsAnOpenPeer(t *testing.T) {
	for _, sends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			conn, other := pipe()
			c := run(t, nil, conn, other, func(p *peer) {
				id := p.accept("200")
				if _, end := p.body(id); end == nil {
					t.Error("no END_STREAM")
				}
				start := time.Now()
				if sends {
					p.WriteData(id, false, []byte("more"))
				}
				_, end := p.body(id)
				if f, ok := end.(*http2.RSTStreamFrame); !ok || f.ErrCode != http2.ErrCodeCancel {
					t.Errorf("the stream ended with %v", end)
				}
				if took := time.Since(start); sends != (took == 0) || took > linger {
					t.Errorf("it took %v", took)
				}
				p.drain()
			})
			s := connect(t, c)
			s.Write([]byte("data"))
			s.Close()
			<-time.After(time.Minute)
		})
	}
}

func TestStreamReset(t *testing.T) {
	for _, code := range []http2.ErrCode{http2.ErrCodeConnect, http2.ErrCodeNo} {
		c := script(t, nil, func(p *peer) {
			id := p.accept("200")
			p.WriteData(id, false, []byte("some"))
			p.WriteRSTStream(id, code)
			p.drain()
		})
		conn := connect(t, c)
		got, err := io.ReadAll(conn)
		var se http2.StreamError
		if string(got) != "some" || !errors.As(err, &se) || se.Code != code {
			t.Errorf("%q %v", got, err)
		}
		for err = nil; err == nil; {
			_, err = conn.Write([]byte("x"))
		}
		conn.Close()
	}
}

func TestStreamOfClosedConnection(t *testing.T) {
	c := script(t, nil, func(p *peer) { p.accept("200"); p.drain() })
	conn := connect(t, c)
	defer conn.Close()
	if c.InFlight() != 1 || conn.RemoteAddr() == nil {
		t.Error("the stream does not count")
	}
	go c.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("read: %v", err)
	}
}
