package caddymodule

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// TestSlowReaders has clients that do not read, and an origin that sends them all it may: what waits in between is bounded, and a
// client that reads is not held up by it.
func TestSlowReaders(t *testing.T) {
	const (
		readers = 25
		size    = 8 << 20
		window  = 1 << 20
		between = 256 << 10 // the buffers of copies, of the client's connection and of what the origin is about to send
	)
	for _, l := range []leg{{"http", "h2"}, {"https", "h2c"}} {
		t.Run("H14_"+l.name(), func(t *testing.T) {
			var written [readers]atomic.Int64
			b := newBed(t)
			b.extend(map[string]http.Handler{"/long": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var n int
				fmt.Sscan(r.URL.RawQuery, &n)
				piece := make([]byte, 32<<10)
				for written[n].Load() < size {
					m, err := w.Write(piece)
					if written[n].Add(int64(m)); err != nil {
						return
					}
				}
			})})
			s := startCaddy(t, b.site(l.way, l.protocol, "", ""))
			client := h2cClient()
			client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}
			defer client.CloseIdleConnections()
			for n := range readers {
				res, err := client.Get(fmt.Sprintf("%s/long?%d", s.url, n))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
			}
			for n := range readers {
				awaitTrue(t, "the window to be used", func() bool { return written[n].Load() >= window/4 })
			}
			if got := s.get(fmt.Sprintf("/bytes/%d", size), http.StatusOK); len(got) != size {
				t.Errorf("%d bytes for the client that reads", len(got))
			}
			for n := range readers {
				if most := written[n].Load(); most > window+between {
					t.Errorf("the origin sent %d bytes that client %d did not read", most, n)
				}
			}
		})
	}
}
