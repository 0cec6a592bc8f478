package h1c

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
)

func TestNothingIsAdded(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		heads := make(chan []string, 3)
		c := e.over(t, nil, func(p *peer) {
			tp := textproto.NewReader(p.br)
			for range 3 {
				var lines []string
				for {
					line, err := tp.ReadLine()
					if err != nil || line == "" {
						break
					}
					lines = append(lines, line)
				}
				heads <- lines
				p.send("HTTP/1.1 200 OK", "Content-Encoding: gzip", "Content-Length: 2", "", "zz")
			}
		})
		for _, header := range []http.Header{{}, {"User-Agent": {""}}, {"X": {"1"}}} {
			req := get(t, "/a?b=c")
			req.Header = header
			before := header.Clone()
			reserve(t, c)
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || string(body) != "zz" || res.Header.Get("Content-Encoding") != "gzip" || res.ContentLength != 2 {
				t.Errorf("%q %v %v", body, err, res.Header)
			}
			want := []string{"GET /a?b=c HTTP/1.1", "Host: origin.test"}
			if before.Get("X") != "" {
				want = append(want, "X: 1")
			}
			if got := <-heads; !slices.Equal(got, want) {
				t.Errorf("sent %q, want %q", got, want)
			}
			if !maps.EqualFunc(req.Header, before, slices.Equal) || res.Request != req {
				t.Errorf("the request was changed: %v", req.Header)
			}
		}
	})
}

func TestInterimResponses(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) {
			p.request()
			p.send("HTTP/1.1 102 Processing", "", "HTTP/1.1 103 Early Hints", "Link: </a>", "", "HTTP/1.1 200 OK", "Content-Length: 0", "", "")
			p.request()
			p.send("HTTP/1.1 103 Early Hints", "", "HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: x", "", "")
		})
		var codes []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				codes = append(codes, code)
				return nil
			},
		})
		reserve(t, c)
		res, err := c.RoundTrip(get(t, "/").WithContext(ctx))
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		res.Body.Close()
		reserve(t, c)
		req := get(t, "/").WithContext(ctx)
		req.Header.Set("Connection", "upgrade")
		req.Header.Set("Upgrade", "x")
		res, err = c.RoundTrip(req)
		if err != nil || res.StatusCode != 101 {
			t.Fatal(res, err)
		}
		res.Body.Close()
		if !slices.Equal(codes, []int{102, 103, 103}) {
			t.Errorf("interim responses %v", codes)
		}
	})
}

func TestTrailersBothWays(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) {
			req := p.request()
			body, err := io.ReadAll(req.Body)
			if err != nil || string(body) != "body" || req.Trailer.Get("X-Up") != "sum" {
				p.t.Errorf("peer got %q %v %v", body, req.Trailer, err)
			}
			p.send("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Trailer: X-Down", "", "2", "ok", "0", "X-Down: sum", "", "")
		})
		req := get(t, "/")
		trailer := http.Header{"X-Up": nil}
		req.Method, req.Trailer, req.ContentLength = http.MethodPost, trailer, -1
		// As Caddy does it, the trailer is filled in the Read that returns EOF.
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), readFunc(func([]byte) (int, error) {
			trailer["X-Up"] = []string{"sum"}
			return 0, io.EOF
		})))
		reserve(t, c)
		res, err := c.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, ok := res.Trailer["X-Down"]; !ok {
			t.Errorf("trailer not announced: %v", res.Trailer)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ok" || res.Trailer.Get("X-Down") != "sum" {
			t.Errorf("%q %v %v", body, err, res.Trailer)
		}
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestCutBodies(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		for name, reply := range map[string]string{
			"B26_length_none": "Content-Length: 123\r\n\r\n",
			"B26_length_some": "Content-Length: 123\r\n\r\nsome",
			"B26_chunk_edge":  "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
			"B26_in_chunk":    "Transfer-Encoding: chunked\r\n\r\n9\r\nok",
		} {
			t.Run(name, func(t *testing.T) {
				c := e.over(t, nil, func(p *peer) { p.request(); p.send("HTTP/1.1 200 OK", reply) })
				reserve(t, c)
				res, err := c.RoundTrip(get(t, "/"))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if _, err := io.ReadAll(res.Body); err == nil {
					t.Error("a cut body looks complete")
				}
				if c.Reserve() {
					t.Error("the connection is usable")
				}
			})
		}
	})
}

func TestBodyUntilClose(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) { p.request(); p.send("HTTP/1.1 200 OK", "", "all of it") })
		reserve(t, c)
		res, err := c.RoundTrip(get(t, "/"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "all of it" {
			t.Errorf("%q %v", body, err)
		}
	})
}

// The peer answers after the first bytes of an upload and closes, reading side first.
func TestEarlyAnswerIsSeen(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		for range 20 {
			c := e.over(t, nil, func(p *peer) {
				p.request()
				p.Conn.(*net.TCPConn).CloseRead()
				p.send("HTTP/1.1 413 Content Too Large", "Connection: close", "Content-Length: 3", "", "big")
			})
			req := get(t, "/")
			req.Method, req.ContentLength = http.MethodPost, 64<<20
			req.Body = io.NopCloser(bytes.NewReader(make([]byte, 64<<20)))
			reserve(t, c)
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Logf("the peer's reset came first: %v", err)
				continue
			}
			res.Body.Close()
			if res.StatusCode != 413 {
				t.Fatal(res.Status)
			}
		}
	})
}

// broken is a conn that can be read, but fails to be written to once it took limit bytes.
type broken struct {
	net.Conn
	limit int
}

func (b *broken) Write(p []byte) (int, error) {
	n := min(len(p), b.limit)
	b.limit -= n
	if n, err := b.Conn.Write(p[:n]); err != nil || n == len(p) {
		return n, err
	}
	return n, net.ErrWriteToConnected
}

func TestEarlyAnswerSurvivesFailedWrite(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		conn, other := net.Pipe()
		c := e.between(t, nil, &broken{conn, 8 << 10}, other, func(p *peer) {
			io.CopyN(io.Discard, p.br, 8<<10)
			p.send("HTTP/1.1 413 Content Too Large", "Content-Length: 3", "", "")
			p.send("big")
			io.Copy(io.Discard, p.br)
		})
		req := get(t, "/")
		req.Method, req.Body, req.ContentLength = http.MethodPost, io.NopCloser(bytes.NewReader(make([]byte, 1<<20))), 1<<20
		reserve(t, c)
		res, err := c.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "big" || res.StatusCode != 413 {
			t.Errorf("%s %q %v", res.Status, body, err)
		}
	})
}

func TestUnreadBodyClosesConnection(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) {
			p.request()
			p.send("HTTP/1.1 200 OK", "Content-Length: 1000000", "", "some")
			io.Copy(io.Discard, p.br)
		})
		died := make(chan struct{}, 8)
		c.Notify(func() { died <- struct{}{} })
		reserve(t, c)
		res, err := c.RoundTrip(get(t, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if c.InFlight() != 1 || c.Reserve() {
			t.Error("the slot is free while a body is open")
		}
		res.Body.Close()
		if c.Err() == nil || c.InFlight() != 0 {
			t.Error("the connection is usable after an unread body")
		}
		<-died
	})
}

func TestSlot(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) { p.br.ReadByte() })
		if c.Shareable() || c.Err() != nil || c.InFlight() != 0 {
			t.Error("a new connection is not ready")
		}
		reserve(t, c)
		if c.Reserve() || c.InFlight() != 1 {
			t.Error("two slots")
		}
		c.Release()
		reserve(t, c)
		c.Release()
		if c.InFlight() != 0 {
			t.Error("the slot was not given back")
		}
	})
}

func TestHeadHasNoBody(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) {
			for range 2 {
				p.request()
				p.send("HTTP/1.1 200 OK", "Content-Length: 5", "", "")
			}
		})
		for range 2 {
			req := get(t, "/").WithContext(context.WithoutCancel(t.Context()))
			req.Method = http.MethodHead
			reserve(t, c)
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res.Body); err != nil || len(body) != 0 || res.ContentLength != 5 {
				t.Errorf("%q %v %d", body, err, res.ContentLength)
			}
			res.Body.Close()
		}
	})
}
