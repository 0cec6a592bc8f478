package h1c

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sleep is time passing in a synctest bubble.
func sleep(d time.Duration) { <-time.After(d) }

func TestTimeouts(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		for name, test := range map[string]struct {
			cfg  Config
			peer func(*peer)
			fail bool
		}{
			"head_too_late": {Config{ResponseHeaderTimeout: time.Second}, func(p *peer) { p.request(); sleep(2 * time.Second) }, true},
			"head_in_time":  {Config{ResponseHeaderTimeout: time.Second}, func(p *peer) { p.request(); sleep(time.Second / 2); p.send(ok) }, false},
			"slow_body_is_not_head": {Config{ResponseHeaderTimeout: time.Second}, func(p *peer) {
				p.request()
				p.send(ok[:len(ok)-1])
				sleep(time.Minute)
				p.send("k")
			}, false},
			"read_in_head": {Config{ReadTimeout: time.Second}, func(p *peer) { p.request(); sleep(2 * time.Second) }, true},
			"read_in_body": {Config{ReadTimeout: time.Second}, func(p *peer) { p.request(); p.send(ok[:len(ok)-1]); sleep(2 * time.Second) }, true},
			"each_read": {Config{ReadTimeout: time.Second}, func(p *peer) {
				p.request()
				for i := range len(ok) {
					sleep(time.Second / 2)
					p.send(ok[i : i+1])
				}
			}, false},
			"write": {Config{WriteTimeout: time.Second}, func(p *peer) { sleep(2 * time.Second) }, true},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := e.pipe(t, &test.cfg, test.peer)
					reserve(t, c)
					res, err := c.RoundTrip(get(t, "/"))
					if err == nil {
						_, err = io.ReadAll(res.Body)
						res.Body.Close()
					}
					if test.fail {
						var ne net.Error
						if !errors.As(err, &ne) || !ne.Timeout() {
							t.Errorf("%T: %v", err, err)
						}
					} else if err != nil {
						t.Error(err)
					}
				})
			})
		}
	})
}

func TestTimeoutsOnlyInFlight(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		synctest.Test(t, func(t *testing.T) {
			c := e.pipe(t, &Config{ReadTimeout: time.Second, WriteTimeout: time.Second}, func(p *peer) {
				for range 3 {
					p.request()
					p.send("HTTP/1.1 200 OK", "Content-Length: 2", "", "ok")
				}
				p.request()
				p.send("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: x", "", "")
				sleep(time.Hour)
				p.send("late")
				io.ReadFull(p.br, make([]byte, 4))
			})
			sleep(time.Hour)
			for range 3 {
				reserve(t, c)
				res, err := c.RoundTrip(get(t, "/"))
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				sleep(time.Hour)
			}
			reserve(t, c)
			req := get(t, "/")
			req.Header.Set("Connection", "upgrade")
			req.Header.Set("Upgrade", "x")
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			rw := res.Body.(stream)
			defer rw.Close()
			if _, err := io.ReadFull(rw, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			sleep(time.Hour)
			if _, err := rw.Write([]byte("back")); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func TestLongUploadIsNoSilence(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		synctest.Test(t, func(t *testing.T) {
			c := e.pipe(t, &Config{ReadTimeout: time.Second}, func(p *peer) {
				io.Copy(io.Discard, p.request().Body)
				p.send("HTTP/1.1 200 OK", "Content-Length: 0", "", "")
			})
			r, w := io.Pipe()
			go func() {
				for range 20 {
					sleep(time.Second / 2)
					w.Write(make([]byte, 8<<10))
				}
				w.Close()
			}()
			req := get(t, "/")
			req.Method, req.Body = http.MethodPost, r
			reserve(t, c)
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		})
	})
}

func TestExpectContinue(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		expect := func(t *testing.T) *http.Request {
			req := get(t, "/")
			req.Method, req.Body, req.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader("data")), 4
			req.Header.Set("Expect", "100-continue")
			return req
		}
		for name, test := range map[string]struct {
			peer   func(*peer)
			status int
		}{
			"continue": {func(p *peer) {
				req := p.request()
				sleep(time.Second / 2)
				p.send("HTTP/1.1 100 Continue", "", "")
				io.Copy(io.Discard, req.Body)
				p.send("HTTP/1.1 200 OK", "Content-Length: 0", "", "")
			}, 200},
			"silence": {func(p *peer) {
				io.Copy(io.Discard, p.request().Body)
				p.send("HTTP/1.1 200 OK", "Content-Length: 0", "", "")
			}, 200},
			"refused": {func(p *peer) {
				p.request()
				p.send("HTTP/1.1 417 Expectation Failed", "Content-Length: 0", "Connection: close", "", "")
				if n, _ := io.Copy(io.Discard, p.br); n != 0 {
					p.t.Errorf("%d bytes of a refused body were sent", n)
				}
			}, 417},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := e.pipe(t, &Config{ExpectContinueTimeout: time.Second}, test.peer)
					reserve(t, c)
					res, err := c.RoundTrip(expect(t))
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					if res.StatusCode != test.status {
						t.Error(res.Status)
					}
				})
			})
		}
	})
}
