package h2c

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
)

func TestWhatIsSent(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		want   []string // regular fields, sorted
	}{
		"nothing_is_added": {http.Header{}, nil},
		"no_agent":         {http.Header{"User-Agent": {""}}, nil},
		"agent":            {http.Header{"User-Agent": {"a"}}, []string{"user-agent=a"}},
		"H16_connection_fields": {http.Header{
			"Connection": {"keep-alive, X-Hop", "close"}, "Keep-Alive": {"5"}, "Proxy-Connection": {"x"},
			"Transfer-Encoding": {"gzip, chunked"}, "Upgrade": {"websocket"}, "X-Hop": {"1"}, "X": {"1"},
		}, []string{"x=1"}},
		"H12_te_trailers": {http.Header{"Te": {"gzip, trailers"}, "Connection": {"TE"}}, []string{"te=trailers"}},
		"te_other":        {http.Header{"Te": {"gzip"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			heads := make(chan *http2.MetaHeadersFrame, 1)
			c := script(t, nil, func(p *peer) {
				f := p.request()
				heads <- f
				p.head(f.StreamID, true, ":status", "204")
				p.drain()
			})
			req, before := get(t), test.header.Clone()
			req.Header = test.header
			reserve(t, c)
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			f := <-heads
			var got []string
			for _, field := range f.RegularFields() {
				got = append(got, field.Name+"="+field.Value)
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("sent %q, want %q", got, test.want)
			}
			if f.PseudoValue("path") != "/a?b=c" || f.PseudoValue("authority") != "origin.test" || f.PseudoValue("scheme") != "http" {
				t.Errorf("sent %v", f.PseudoFields())
			}
			if !maps.EqualFunc(req.Header, before, slices.Equal) || res.Request != req {
				t.Errorf("the request was changed: %v", req.Header)
			}
		})
	}
}

func TestFullDuplexEcho(t *testing.T) {
	c := dialServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		copyFlush(w, r.Body)
	}))
	const size = 16 << 20
	sum := sha256.New()
	req := get(t)
	req.Method, req.ContentLength = http.MethodPost, -1
	req.Body = io.NopCloser(io.TeeReader(io.LimitReader(zeros{}, size), sum))
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	back := sha256.New()
	n, err := io.Copy(back, res.Body)
	if err != nil || n != size || !bytes.Equal(sum.Sum(nil), back.Sum(nil)) {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	res.Body.Close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestEarlyAnswerIsSeen(t *testing.T) {
	c := script(t, nil, func(p *peer) {
		id := p.request().StreamID
		p.head(id, false, ":status", "413")
		p.WriteData(id, true, []byte("big"))
		p.WriteRSTStream(id, http2.ErrCodeNo)
		p.drain()
	})
	body := &closeBody{Reader: zeros{}}
	req := get(t)
	req.Method, req.Body, req.ContentLength = http.MethodPost, body, 64<<20
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != "big" || res.StatusCode != 413 {
		t.Errorf("%s %q %v", res.Status, got, err)
	}
	res.Body.Close()
}

func TestTrailersBothWays(t *testing.T) {
	c := dialServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Down")
		w.Write(body)
		w.Header().Set("X-Down", r.Trailer.Get("X-Up"))
	}))
	req, trailer := get(t), http.Header{"X-Up": nil}
	req.Method, req.Trailer, req.ContentLength = http.MethodPost, trailer, -1
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
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" || res.Trailer.Get("X-Down") != "sum" {
		t.Errorf("%q %v %v", body, err, res.Trailer)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestInterimResponses(t *testing.T) {
	c := script(t, nil, func(p *peer) {
		id := p.request().StreamID
		p.head(id, false, ":status", "103", "link", "</a>")
		p.head(id, true, ":status", "200")
		p.drain()
	})
	var codes []int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			codes = append(codes, code)
			return nil
		},
	})
	reserve(t, c)
	res, err := c.RoundTrip(get(t).WithContext(ctx))
	if err != nil || res.StatusCode != 200 || !slices.Equal(codes, []int{103}) {
		t.Fatal(res, err, codes)
	}
	res.Body.Close()
}

// An upload that waits for a window ends with its context, and so does its response's body.
func TestCancelledWhileUploading(t *testing.T) {
	c := script(t, nil, func(p *peer) {
		p.head(p.request().StreamID, false, ":status", "200")
		p.drain() // and never a WINDOW_UPDATE
	})
	ctx, cancel := context.WithCancel(t.Context())
	body := &closeBody{Reader: zeros{}}
	req := get(t).WithContext(ctx)
	req.Method, req.Body, req.ContentLength = http.MethodPost, body, -1
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	go cancel()
	if _, err := res.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%T %v", err, err)
	}
	res.Body.Close()
}

func TestSlots(t *testing.T) {
	answers := make(chan struct{})
	c := script(t, nil, func(p *peer) {
		p.head(p.request().StreamID, true, ":status", "204")
		id := p.request().StreamID
		<-answers
		p.head(id, true, ":status", "204")
		p.drain()
	}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	if !c.Shareable() || c.Err() != nil {
		t.Error("a new connection is not ready")
	}
	free := make(chan struct{}, 8)
	c.Notify(func() { free <- struct{}{} })
	for n := range 2 {
		for !c.Reserve() {
			<-free
		}
		if n == 1 {
			if c.Reserve() || c.InFlight() != 1 || c.Err() != nil {
				t.Error("two slots of one stream")
			}
			c.Release()
			reserve(t, c)
			close(answers)
		}
		res, err := c.RoundTrip(get(t))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
}

// Requests that were let in before the peer's SETTINGS take turns when it allows one stream only.
func TestSettingsLowerTheLimit(t *testing.T) {
	reserved := make(chan struct{})
	c := script(t, nil, func(p *peer) {
		for range 10 {
			id := p.request().StreamID
			<-reserved
			p.head(id, true, ":status", "204")
		}
		p.drain()
	}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	for range 10 { // SETTINGS may have come: then there are fewer slots
		if !c.Reserve() {
			c.slots.pending++
		}
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			res, err := c.RoundTrip(get(t))
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
		})
	}
	close(reserved)
	wg.Wait()
	if c.slots.count() != 0 {
		t.Errorf("%d slots pending", c.slots.count())
	}
}
