package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestNextTunnel has tunnels die, or be full: what comes next goes through another one by the same way, or nowhere.
func TestNextTunnel(t *testing.T) {
	for _, way := range bedWays[1:] {
		for _, protocol := range bedProtocols {
			t.Run("P02_after_its_death_"+protocol+"_"+way, func(t *testing.T) {
				b := newBed(t)
				proxy := b.proxies[way]
				s := startGuarded(t, b.site(way, protocol, "", "lb_retries 1"))
				for _, end := range []func(){proxy.DropConns, b.origin.DropConns, proxy.DropConns} {
					s.get("/bytes/1", 200)
					stream := s.openEvents("", 0)
					stream.read(b, 1)
					if b.assertNoDirect(); t.Failed() {
						return
					}
					end()
					if rest, err := io.ReadAll(stream.r); err == nil {
						t.Errorf("the stream ends with %q as if it were whole", rest)
					}
				}
				s.get("/bytes/1", 200)
				if n := len(proxy.Targets()); n != 4 {
					t.Errorf("%d tunnels, want 4", n)
				}
				b.assertNoDirect()

				reached := b.origin.Accepted()
				proxy.Close()
				for _, method := range []string{"GET", "POST"} {
					res, _, err := s.do(method, "/bytes/1", strings.NewReader("body"), nil)
					if err != nil || res.StatusCode != http.StatusBadGateway {
						t.Errorf("%s without the proxy: %v %v", method, res, err)
					}
				}
				if n := b.origin.Accepted() - reached; n != 0 {
					t.Errorf("the origin was reached %d times without the proxy", n)
				}
			})
		}
		t.Run("P02_streams_are_used_up_"+way, func(t *testing.T) {
			for _, protocol := range []string{"h2", "h2c"} {
				o := startScripted(t, way, protocol, "",
					"<- SETTINGS MAX_CONCURRENT_STREAMS=1\n"+asks(protocol, 0, "GET", "")+"<- HEADERS 1 :status=200\n<- DATA 1 \"begun\"\n-> RST_STREAM 1 CANCEL\n-> rest",
					asks(protocol, 0, "GET", "")+says(protocol, 0)+asks(protocol, 1, "POST", "data")+says(protocol, 1)+"-> rest")
				res, err := o.client().Get(o.url)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(res.Body, make([]byte, len("begun"))); err != nil {
					t.Fatal(err)
				}
				o.answered("GET", "")
				o.answered("POST", "data")
				o.opened(way, 2)
				res.Body.Close()
				const reset = "\x00\x00\x04\x03\x00\x00\x00\x00\x01" // RST_STREAM 1
				awaitTrue(t, "the reset", func() bool { return strings.Contains(string(o.peer.Heard(0)), reset) })
			}
		})
		t.Run("P02_stream_is_refused_"+way, func(t *testing.T) {
			for _, protocol := range []string{"h2", "h2c"} {
				o := startScripted(t, way, protocol, "",
					asks(protocol, 0, "GET", "")+says(protocol, 0)+asks(protocol, 1, "POST", "data")+"<- RST_STREAM 3 REFUSED_STREAM\n-> rest",
					asks(protocol, 0, "POST", "data")+says(protocol, 0)+"-> rest")
				o.answered("GET", "")
				o.answered("POST", "data")
				o.opened(way, 2)
			}
		})
		t.Run("P02_goaway_behind_the_answer_"+way, func(t *testing.T) {
			for _, protocol := range []string{"h2", "h2c"} {
				get := asks(protocol, 0, "GET", "") + says(protocol, 0)
				o := startScripted(t, way, protocol, "", get+"<- GOAWAY 1 NO_ERROR\n-> eof", get+"-> rest")
				o.answered("GET", "")
				awaitTrue(t, "the tunnel to end", func() bool { return o.peer.Open() == 0 })
				o.answered("GET", "")
				o.opened(way, 2)
			}
		})
	}
	t.Run("P02_streams_of_the_proxy_are_used_up", func(t *testing.T) {
		b := newBed(t)
		proxy := b.proxy(testbed.ProxyConfig{Dialect: testbed.H2, Authority: b.proxies["h2"].Authority(), MaxConcurrentStreams: 1})
		b.proxies["h2"] = proxy
		s := startGuarded(t, b.site("h2", "h1", "", ""))
		for i := range 3 {
			s.openEvents("", 0).read(b, 1)
			if n := int(proxy.Accepted()); n != i+1 {
				t.Errorf("%d connections for %d tunnels", n, i+1)
			}
		}
		if got, want := fmt.Sprint(proxy.Targets()), fmt.Sprint([]string{b.origin.TLSH1, b.origin.TLSH1, b.origin.TLSH1}); got != want {
			t.Errorf("tunnels to %s, want %s", got, want)
		}
		b.assertNoDirect()
	})
}
