package caddymodule

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// allLegs are every protocol over every way.
func allLegs() (legs []leg) {
	for _, way := range bedWays {
		for _, protocol := range bedProtocols {
			legs = append(legs, leg{way, protocol})
		}
	}
	return legs
}

// reload replaces the config by a new one of the same site.
func (s *server) reload(site string) {
	s.t.Helper()
	cfg := s.adapt(site)
	loaded := make(chan error, 1)
	go func() { loaded <- caddy.Load(cfg, true) }()
	select {
	case err := <-loaded:
		if err != nil {
			s.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		s.t.Fatal("the reload hangs")
	}
	s.settle()
}

// awaitNone waits until no connection is left anywhere behind Caddy.
func (b *bed) awaitNone() {
	b.t.Helper()
	awaitTrue(b.t, "every connection to close", func() bool {
		open := b.origin.Conns()
		for _, p := range b.proxies {
			open += p.Conns() + p.Tunnels()
		}
		return open == 0
	})
}

// TestReload replaces configs while their tunnels idle, and while they are in use.
func TestReload(t *testing.T) {
	start := func(t *testing.T) (b *bed, s *server, site string) {
		b = newBed(t)
		for _, l := range allLegs() {
			site += fmt.Sprintf("handle_path /%s/* {\n%s\n}\n", l.name(), b.site(l.way, l.protocol, "", ""))
		}
		return b, startGuarded(t, site), site
	}
	t.Run("P08_P09_idle_tunnels", func(t *testing.T) {
		b, s, site := start(t)
		for range 4 {
			for _, l := range allLegs() {
				s.get("/"+l.name()+"/bytes/1", 200)
			}
			if n := b.origin.Conns(); n != len(allLegs()) {
				t.Errorf("%d connections idle, want %d", n, len(allLegs()))
			}
			s.reload(site)
			b.awaitNone()
		}
	})
	t.Run("P08_P09_tunnels_in_use_by_several_configs", func(t *testing.T) {
		b, s, site := start(t)
		var streams []*openedEvents
		for range 3 {
			for _, l := range allLegs() {
				stream := s.openEvents("/"+l.name(), 2)
				stream.read(b, 1)
				streams = append(streams, stream)
			}
			s.reload(site)
		}
		for _, stream := range streams {
			stream.read(b, 2)
			stream.end()
		}
		b.awaitNone()
		if f := s.failures(); len(f) > 0 {
			t.Errorf("logged %v", f)
		}
	})
	for _, l := range allLegs() {
		t.Run("P08_both_ways_"+l.name(), func(t *testing.T) {
			b := newBed(t)
			s := startCaddy(t, b.site(l.way, l.protocol, "max_body_bytes 64MiB", ""))
			stream := s.openEvents("", 3)
			stream.read(b, 1)
			upload := s.openUpload()
			upload.send(64 << 10)
			awaitTrue(t, "the upload to arrive", func() bool { return len(b.origin.Requests()) == 2 })

			s.adminChange("PATCH", adminTransport+"/max_body_bytes", "1024")
			s.get("/bytes/1025?framing=length", 502)

			stream.read(b, 2)
			stream.read(b, 3)
			stream.end()
			upload.send(64 << 10)
			if up := upload.finish(); up.Bytes != 128<<10 || up.SHA256 != testbed.PageSum(128<<10) {
				t.Errorf("the upload arrived as %+v", up)
			}
			s.adminChange("PATCH", adminTransport+"/max_body_bytes", "2048")
			b.awaitNone()
		})
	}
}

// openedEvents is an event stream that is being read.
type openedEvents struct {
	s  *server
	id string
	r  *bufio.Reader
}

// openEvents opens a stream of n events, 0 for one without end, below path.
func (s *server) openEvents(path string, n int) *openedEvents {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", fmt.Sprintf("%s%s/events?n=%d", s.url, path, n), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return &openedEvents{s, res.Header.Get(testbed.StreamHeader), bufio.NewReader(res.Body)}
}

// read reads event seq and lets the next one come.
func (e *openedEvents) read(b *bed, seq int) {
	e.s.t.Helper()
	for line := ""; line != "\n"; {
		var err error
		if line, err = e.r.ReadString('\n'); err != nil {
			e.s.t.Fatalf("event %d: %v", seq, err)
		}
	}
	b.origin.Ack(e.id, seq)
}

// end wants the stream to end properly.
func (e *openedEvents) end() {
	e.s.t.Helper()
	if rest, err := io.ReadAll(e.r); err != nil || len(rest) > 0 {
		e.s.t.Errorf("the stream ends with %q, %v", rest, err)
	}
}

// openedUpload is a page that is being uploaded.
type openedUpload struct {
	s    *server
	page io.Reader
	body *io.PipeWriter
	done chan error
	up   testbed.Uploaded
}

func (s *server) openUpload() *openedUpload {
	r, w := io.Pipe()
	u := &openedUpload{s: s, page: testbed.PageReader(1 << 30), body: w, done: make(chan error, 1)}
	go func() {
		res, err := s.client().Post(s.url+"/upload", "text/html", r)
		if err == nil {
			err = json.NewDecoder(res.Body).Decode(&u.up)
			res.Body.Close()
		}
		r.CloseWithError(err)
		u.done <- err
	}()
	return u
}

func (u *openedUpload) send(n int64) {
	u.s.t.Helper()
	if _, err := io.CopyN(u.body, u.page, n); err != nil {
		u.s.t.Fatal(err)
	}
}

func (u *openedUpload) finish() testbed.Uploaded {
	u.s.t.Helper()
	u.body.Close()
	if err := <-u.done; err != nil {
		u.s.t.Fatal(err)
	}
	return u.up
}
