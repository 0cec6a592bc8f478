package pool_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/h1c"
	"github.com/caddytunnel/caddytunnel/h2c"
	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// demanding is a scripted origin that is spoken to in HTTP/2 until it requires HTTP/1.1.
type demanding struct {
	*pool.Pool
	t    *testing.T
	peer *script.Peer
	id   pool.Identity
}

func newDemanding(t *testing.T, opt pool.Options, scripts ...string) *demanding {
	d := &demanding{Pool: pool.New(opt), t: t, peer: script.Listen(t, scripts...)}
	t.Cleanup(d.Close)
	d.id = pool.Identity{Addr: d.peer.Addr, HTTP11: true}
	return d
}

func (d *demanding) dial(ctx context.Context, m *pool.Memory) (pool.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.peer.Addr)
	if err != nil {
		return nil, err
	}
	if m.HTTP11Required() {
		return h1c.New(conn, nil)
	}
	return h2c.New(ctx, conn, nil)
}

func (d *demanding) do(method, body string) (*http.Response, pool.Got, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://origin.test/", r)
	if err != nil {
		d.t.Fatal(err)
	}
	req.GetBody = nil
	var got pool.Got
	res, err := d.RoundTrip(req, d.id, d.dial, &got)
	return res, got, err
}

// answered does a request to its end, and wants the answer to be of an HTTP version.
func (d *demanding) answered(method, body string, proto int) pool.Got {
	d.t.Helper()
	res, got, err := d.do(method, body)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "ok" || res.ProtoMajor != proto {
		d.t.Errorf("%s %q %v", res.Proto, text, err)
	}
	return got
}

// refused wants a request to fail because it is to be one of HTTP/1.1.
func (d *demanding) refused(method, body string, unprocessed bool) {
	d.t.Helper()
	_, got, err := d.do(method, body)
	var refusal interface{ HTTP11Required() bool }
	var facts interface{ Unprocessed() bool }
	if !errors.As(err, &refusal) || !refusal.HTTP11Required() || !errors.As(err, &facts) || facts.Unprocessed() != unprocessed || got.Retried {
		d.t.Errorf("%v, %+v", err, got)
	}
}

const (
	get11  = "-> head \"GET / HTTP/1.1\\r\\n\"\n<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok\"\n"
	post11 = "-> head \"POST / HTTP/1.1\\r\\n\" \"Content-Length: 4\\r\\n\"\n-> \"data\"\n<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok\"\n"
)

func TestHTTP11Required(t *testing.T) {
	for name, refusal := range map[string]string{
		"H07_reset":  "-> HEADERS 1\n<- RST_STREAM 1 HTTP_1_1_REQUIRED\n-> rest",
		"H07_goaway": "-> HEADERS 1\n<- GOAWAY 0 HTTP_1_1_REQUIRED\n-> rest",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDemanding(t, pool.Options{}, "h2\n"+refusal, get11+post11+"-> rest")
			if got := d.answered("GET", "", 1); !got.Retried {
				t.Errorf("%+v", got)
			}
			if got := d.answered("POST", "data", 1); got.Retried || !got.Reused {
				t.Errorf("it was not remembered: %+v", got)
			}
		})
		t.Run(name+"_post", func(t *testing.T) {
			refusal = strings.Replace(refusal, "HEADERS 1\n", "HEADERS 1 content-length=4\n-> DATA 1 \"data\" END_STREAM\n", 1)
			d := newDemanding(t, pool.Options{}, "h2\n"+refusal, post11+get11+"-> rest")
			if got := d.answered("POST", "data", 1); !got.Retried {
				t.Errorf("%+v", got)
			}
			d.answered("GET", "", 1)
		})
	}
	t.Run("H07_goaway_on_later_stream", func(t *testing.T) {
		d := newDemanding(t, pool.Options{}, `h2
			-> HEADERS 1
			<- HEADERS 1 :status=200
			<- DATA 1 "ok" END_STREAM
			-> HEADERS 3
			<- GOAWAY 1 HTTP_1_1_REQUIRED
			-> rest`, `h2
			-> HEADERS 1
			<- GOAWAY 0 HTTP_1_1_REQUIRED
			-> rest`, post11+"-> rest")
		d.answered("GET", "", 2)
		d.answered("POST", "data", 1)
	})
	t.Run("H07_goaway_that_includes_the_stream", func(t *testing.T) {
		cut := "h2\n-> HEADERS 1\n<- GOAWAY 1 HTTP_1_1_REQUIRED\nclose"
		d := newDemanding(t, pool.Options{}, cut, get11+"-> rest")
		d.answered("GET", "", 1)
		d = newDemanding(t, pool.Options{}, cut, get11+"-> rest")
		d.refused("POST", "", false) // it may have been processed
		d.answered("GET", "", 1)
	})
	t.Run("H07_body_is_not_kept", func(t *testing.T) {
		d := newDemanding(t, pool.Options{ReplayBytes: 3}, `h2
			-> HEADERS 1
			-> DATA 1 "data"
			<- RST_STREAM 1 HTTP_1_1_REQUIRED
			-> rest`, post11+"-> rest")
		d.refused("POST", "data", true)
		d.answered("POST", "data", 1)
	})
	t.Run("H07_http11_is_not_allowed", func(t *testing.T) {
		d := newDemanding(t, pool.Options{}, `h2
			-> HEADERS 1
			<- RST_STREAM 1 HTTP_1_1_REQUIRED
			-> HEADERS 3
			<- HEADERS 3 :status=200
			<- DATA 3 "ok" END_STREAM
			-> rest`)
		d.id.HTTP11 = false
		d.refused("GET", "", true)
		if got := d.answered("GET", "", 2); got.Retried || d.peer.Accepted() != 1 {
			t.Errorf("%+v, %d connections", got, d.peer.Accepted())
		}
	})
	t.Run("H07_remembered_as_long_as_the_identity", func(t *testing.T) {
		const h2 = "h2\n-> HEADERS 1\n<- HEADERS 1 :status=200\n<- DATA 1 \"ok\" END_STREAM\n-> rest"
		d := newDemanding(t, pool.Options{MaxIdentities: 1}, "h2\n-> HEADERS 1\n<- RST_STREAM 1 HTTP_1_1_REQUIRED\n-> rest", get11+"-> rest", h2)
		known := d.id
		d.answered("GET", "", 1)
		d.id.Key[0] = 1
		d.answered("GET", "", 2) // another identity knows nothing of it
		d.id = known
		d.answered("GET", "", 2) // it was forgotten
	})
	t.Run("H07_other_streams_go_on", func(t *testing.T) {
		d := newDemanding(t, pool.Options{}, `h2
			-> HEADERS 1
			<- HEADERS 1 :status=200
			<- DATA 1 "o"
			-> HEADERS 3
			<- RST_STREAM 3 HTTP_1_1_REQUIRED
			<- DATA 1 "k" END_STREAM
			-> eof`, get11+"-> rest")
		res, _, err := d.do("GET", "")
		if err != nil {
			t.Fatal(err)
		}
		d.answered("GET", "", 1)
		if text, err := io.ReadAll(res.Body); err != nil || string(text) != "ok" {
			t.Errorf("%q %v", text, err)
		}
		res.Body.Close() // and with it the connection, which takes no more
	})
}
