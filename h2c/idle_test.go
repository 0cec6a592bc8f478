package h2c

import (
	"errors"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// TestIdle has the peer of an idle connection send frames that are to be answered, obeyed or passed over.
func TestIdle(t *testing.T) {
	for name, test := range map[string]struct {
		say  func(p *peer)
		acks http2.FrameType
	}{
		"PING": {func(p *peer) { p.WritePing(false, [8]byte{1}) }, http2.FramePing},
		"SETTINGS": {func(p *peer) {
			p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		}, http2.FrameSettings},
		"frames_that_want_no_answer": {func(p *peer) {
			p.WriteWindowUpdate(0, 1000)
			p.WritePriority(3, http2.PriorityParam{Weight: 1})
			p.WriteRawFrame(0xbb, 0xff, 0, []byte("unknown"))
			p.WritePing(false, [8]byte{2})
		}, http2.FramePing},
	} {
		t.Run("P11_"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, other := pipe()
				c := run(t, nil, conn, other, func(p *peer) {
					for range 3 {
						p.head(p.request().StreamID, true, ":status", "204")
						test.say(p)
						if err := p.awaitAck(test.acks); err != nil {
							t.Errorf("no answer: %v", err)
							return
						}
					}
					p.drain()
				})
				synctest.Wait() // for the peer's first SETTINGS, and their acknowledgement
				for range 3 {
					reserve(t, c)
					res, err := c.RoundTrip(get(t))
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					synctest.Wait()
				}
			})
		})
	}
}

// TestGoAwayWhenIdle checks that whoever keeps a connection learns at once that it is of no more use.
func TestGoAwayWhenIdle(t *testing.T) {
	for name, used := range map[string]bool{"P11_GOAWAY_after_a_request": true, "P11_GOAWAY_before_any": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, other := pipe()
				idle, over := make(chan struct{}), make(chan struct{})
				c := run(t, nil, conn, other, func(p *peer) {
					if used {
						p.head(p.request().StreamID, true, ":status", "204")
					} else {
						p.awaitAck(http2.FrameSettings)
					}
					p.pump()
					<-idle
					p.WriteGoAway(1, http2.ErrCodeNo, nil)
					<-over
				})
				if used {
					reserve(t, c)
					res, err := c.RoundTrip(get(t))
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
				}
				synctest.Wait()
				told := make(chan error, 10)
				c.Notify(func() { told <- c.Err() })
				close(idle)
				if err := <-told; !errors.Is(err, ErrClosed) {
					t.Errorf("told of %v", err)
				}
				if c.Reserve() {
					t.Error("it has a slot")
				}
				close(over)
			})
		})
	}
}

// awaitAck reads up to an acknowledgement.
func (p *peer) awaitAck(of http2.FrameType) error {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return err
		}
		if h := f.Header(); h.Type == of && h.Flags.Has(http2.FlagPingAck) { // the same bit for SETTINGS
			return nil
		}
	}
}
