package caddymodule

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestEvents reads streams whose origin writes event n+1 only after the client has read event n, however much may be
// read at a time.
func TestEvents(t *testing.T) {
	const events = 5
	b := newBed(t)
	next := make(chan struct{})
	step := func(w http.ResponseWriter, r *http.Request, write func(line string)) {
		for n := range events {
			write(fmt.Sprintf("event %d\n\n", n+1))
			http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}
	b.extend(map[string]http.Handler{
		"/members": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			step(w, r, func(line string) { w.Write(gzipped([]byte(line))) })
		}),
		"/lines": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			step(w, r, func(line string) { io.WriteString(z, line); z.Flush() })
		}),
	})
	s := startCaddy(t, b.legSites("", "pull_bytes 1KiB", "")+b.legSites("decoding-", "decode\npull_bytes 4MiB", ""))
	clients := map[string]*http.Client{"h1": s.client(), "h2c": h2cClient()}
	defer clients["h2c"].CloseIdleConnections()
	// read reads every event and tells acked of it.
	read := func(t *testing.T, client, path string, acked func(res *http.Response, n int)) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := clients[client].Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		r := bufio.NewReader(res.Body)
		for n := 1; n <= events; n++ {
			for line := ""; line != "\n"; {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatalf("%s: event %d: %v", path, n, err)
				}
			}
			acked(res, n)
		}
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("%s: behind the last event: %q, %v", path, rest, err)
		}
	}
	for _, l := range bodyLegs {
		for client := range clients {
			t.Run("B23_"+l.name()+"_"+client, func(t *testing.T) {
				for _, coding := range append([]string{"", "rawdeflate", "gzip,br"}, allowedCodings...) {
					path := fmt.Sprintf("/decoding-%s/events?n=%d&coding=%s", l.name(), events, coding)
					if coding == "" {
						path = fmt.Sprintf("/%s/events?n=%d", l.name(), events)
					}
					read(t, client, path, func(res *http.Response, n int) {
						if err := b.origin.Ack(res.Header.Get(testbed.StreamHeader), n); err != nil && n < events {
							t.Fatalf("%s: event %d: %v", coding, n, err)
						}
					})
				}
				read(t, client, "/decoding-"+l.name()+"/lines", func(*http.Response, int) { next <- struct{}{} })
			})
			t.Run("B06_member_"+l.name()+"_"+client, func(t *testing.T) {
				read(t, client, "/decoding-"+l.name()+"/members", func(*http.Response, int) { next <- struct{}{} })
			})
		}
	}
}
