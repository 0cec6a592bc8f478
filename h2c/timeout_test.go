package h2c

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func sleep(d time.Duration) { <-time.After(d) }

// pump reads and acknowledges in the background, as a peer over an unbuffered conn has to.
func (p *peer) pump() { go p.drain() }

func TestTimeouts(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		peer func(p *peer, id uint32)
		fail bool
	}{
		"head_too_late": {Config{ResponseHeaderTimeout: time.Second}, func(p *peer, id uint32) { sleep(2 * time.Second) }, true},
		"head_in_time": {Config{ResponseHeaderTimeout: time.Second}, func(p *peer, id uint32) {
			sleep(time.Second / 2)
			p.head(id, false, ":status", "200")
			sleep(time.Minute)
			p.WriteData(id, true, nil)
		}, false},
		"read_in_head": {Config{ReadTimeout: time.Second}, func(p *peer, id uint32) { sleep(2 * time.Second) }, true},
		"read_in_body": {Config{ReadTimeout: time.Second}, func(p *peer, id uint32) {
			p.head(id, false, ":status", "200")
			sleep(2 * time.Second)
		}, true},
		"each_read": {Config{ReadTimeout: time.Second}, func(p *peer, id uint32) {
			p.head(id, false, ":status", "200")
			for range 10 {
				sleep(time.Second / 2)
				p.WriteData(id, false, []byte("x"))
			}
			p.WriteData(id, true, nil)
		}, false},
		"H08_silence": {Config{PingIdle: time.Second, PingTimeout: time.Second}, func(p *peer, id uint32) { sleep(time.Hour) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, other := pipe()
				c := run(t, &test.cfg, conn, other, func(p *peer) {
					id := p.request().StreamID
					p.pump()
					test.peer(p, id)
				})
				start := time.Now()
				reserve(t, c)
				res, err := c.RoundTrip(get(t))
				if err == nil {
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				if test.fail != (err != nil) || test.fail && time.Since(start) > time.Minute {
					t.Errorf("%T: %v after %v", err, err, time.Since(start))
				}
				var ne net.Error
				if test.fail && name != "H08_silence" && (!errors.As(err, &ne) || !ne.Timeout()) {
					t.Errorf("%T: %v is no timeout", err, err)
				}
			})
		})
	}
}

func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, other := pipe()
		c := run(t, &Config{WriteTimeout: time.Second}, conn, other, func(p *peer) {
			p.request()
			sleep(time.Hour) // and reads no more
		})
		synctest.Wait() // for the exchange of SETTINGS: net/http's reader would wait for the writer's lock, and so hold time still
		reserve(t, c)
		req := get(t)
		req.Method, req.Body = http.MethodPost, io.NopCloser(zeros{})
		start := time.Now()
		_, err := c.RoundTrip(req)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) > time.Minute {
			t.Errorf("%T: %v after %v", err, err, time.Since(start))
		}
	})
}

func TestReadTimeoutOnlyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, other := pipe()
		c := run(t, &Config{ReadTimeout: time.Second}, conn, other, func(p *peer) {
			p.head(p.request().StreamID, true, ":status", "204")
			p.accept("200")
			p.drain()
		})
		sleep(time.Hour)
		reserve(t, c)
		res, err := c.RoundTrip(get(t))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		io.Copy(io.Discard, res.Body)
		sleep(time.Hour)
		s := connect(t, c)
		sleep(time.Hour)
		if c.Err() != nil {
			t.Error("the connection timed out")
		}
		s.Close()
		sleep(time.Minute)
	})
}

func TestNewIsBoundByContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, other := net.Pipe() // nobody reads the preface
		defer other.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := New(ctx, conn, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the conn is open: %v", err)
		}
	})
}
