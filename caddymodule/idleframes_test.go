package caddymodule

import (
	"bytes"
	"testing"
)

// TestFramesOfAnIdleOrigin has an origin speak up between requests: it is answered, and its tunnel stays of use.
func TestFramesOfAnIdleOrigin(t *testing.T) {
	const (
		frames      = "<- PING\n-> PING ACK\n<- SETTINGS MAX_CONCURRENT_STREAMS=1 INITIAL_WINDOW_SIZE=70000\n<- WINDOW_UPDATE 0 1000\n<- FRAME 0xbb 0 0 \"?\"\n<- PING\n-> PING ACK\n"
		pingAck     = "\x00\x00\x08\x06\x01\x00\x00\x00\x00"
		settingsAck = "\x00\x00\x00\x04\x01\x00\x00\x00\x00"
	)
	for _, way := range bedWays {
		for _, protocol := range []string{"h2", "h2c"} {
			t.Run("P11_"+protocol+"_"+way, func(t *testing.T) {
				o := startScripted(t, way, protocol, "", asks(protocol, 0, "GET", "")+says(protocol, 0)+frames+
					asks(protocol, 1, "POST", "data")+says(protocol, 1)+frames+asks(protocol, 2, "GET", "")+says(protocol, 2)+"-> rest")
				o.answered("GET", "")
				awaitTrue(t, "two answers to PING", func() bool { return bytes.Count(o.peer.Heard(0), []byte(pingAck)) == 2 })
				o.answered("POST", "data")
				awaitTrue(t, "four answers to PING", func() bool { return bytes.Count(o.peer.Heard(0), []byte(pingAck)) == 4 })
				o.answered("GET", "")
				if n := bytes.Count(o.peer.Heard(0), []byte(settingsAck)); n != 3 {
					t.Errorf("%d acknowledgements of SETTINGS, want 3", n)
				}
				if n := o.peer.Accepted(); n != 1 {
					t.Errorf("%d connections to the origin", n)
				}
			})
		}
	}
}
