package caddymodule

import (
	"fmt"
	"strings"
	"testing"
)

// TestReset has an origin reset streams in the middle of its answers. Every client sees a message that is broken off, and the
// connection carries what comes next. Some clients are content once the declared length is there.
func TestReset(t *testing.T) {
	for _, protocol := range []string{"h2", "h2c"} {
		for name, test := range map[string]struct {
			fields string
			size   int
			whole  bool
		}{
			"H04_head_only":      {"", 0, false},
			"H04_part":           {"", 50, false},
			"H04_part_of_length": {"content-length=100000", 50_000, false},
			"H04_all_of_length":  {"content-length=50", 50, true},
		} {
			t.Run(name+"_"+protocol, func(t *testing.T) {
				var story strings.Builder
				stream := 1
				for range downloaders() {
					for _, code := range []string{"NO_ERROR", "CANCEL", "INTERNAL_ERROR"} {
						fmt.Fprintf(&story, "-> HEADERS %d\n<- HEADERS %d :status=200 %s\n", stream, stream, test.fields)
						for left := test.size; left > 0; left -= 10_000 {
							fmt.Fprintf(&story, "<- DATA %d %d*\"x\"\n", stream, min(left, 10_000))
						}
						fmt.Fprintf(&story, "<- RST_STREAM %d %s\n", stream, code)
						stream += 2
					}
				}
				o := startScripted(t, "http", protocol, "", story.String()+"-> rest")
				n := 0
				for _, client := range downloaders() {
					for range 3 {
						d := o.download(t, client, "/")
						content := test.whole && client != "h2c" && d.status == 200 && len(d.body) == test.size
						if !d.broken(test.size) && !content {
							t.Errorf("%s: %v", client, d)
						}
						o.bodyFailed(t, n, "body_incomplete", o.peer.Addr)
						n++
					}
				}
				o.opened("http", 1)
			})
		}
	}
}
