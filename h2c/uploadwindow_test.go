package h2c

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
)

// receiver is a peer that gives windows, and sees that they are kept to.
type receiver struct {
	*peer
	conn    int            // what the connection may still send
	streams map[uint32]int // what the streams may still send
	got     int
	pongs   int
	acks    int
	ended   int
}

// next reads a frame. It is nil when the connection has ended.
func (r *receiver) next() http2.Frame {
	f, err := r.ReadFrame()
	if err != nil {
		r.t.Errorf("peer reads: %v", err)
		return nil
	}
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			r.acks++
		} else {
			r.WriteSettingsAck()
		}
	case *http2.PingFrame:
		r.pongs++
	case *http2.DataFrame:
		n := int(f.Length)
		r.conn, r.streams[f.StreamID], r.got = r.conn-n, r.streams[f.StreamID]-n, r.got+n
		if n > 16<<10 || r.conn < 0 || n > 0 && r.streams[f.StreamID] < 0 {
			r.t.Errorf("a frame of %d bytes leaves %d of the connection and %d of stream %d", n, r.conn, r.streams[f.StreamID], f.StreamID)
		}
		if f.StreamEnded() {
			r.ended++
		}
	}
	return f
}

func (r *receiver) until(done func() bool) {
	for !done() && r.next() != nil {
	}
}

// settle reads all that was sent before the answer to a PING, which is not acknowledged before.
func (r *receiver) settle() {
	before := r.pongs
	r.WritePing(false, [8]byte{})
	r.until(func() bool { return r.pongs > before })
}

// TestUploadWindows has a peer give little, take some of it back, and give it to many.
func TestUploadWindows(t *testing.T) {
	const window = 10
	setting := http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}
	upload := func(c *Conn, size int) {
		req := get(t)
		req.Method, req.Body, req.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(strings.Repeat("x", size))), int64(size)
		if !c.Reserve() {
			t.Error("no slot")
			return
		}
		res, err := c.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		res.Body.Close()
	}
	// first asks for SETTINGS to be known: before, the window is larger.
	first := func(c *Conn) { answered(t, c).Body.Close() }

	t.Run("H15_given_and_taken_back", func(t *testing.T) {
		const size = window + 1 + 20_000 + 65_535 + 1000
		c := script(t, nil, func(p *peer) {
			p.head(p.request().StreamID, true, ":status", "204")
			id := p.request().StreamID
			r := &receiver{peer: p, conn: 1<<16 - 1, streams: map[uint32]int{id: window}}
			spent := func() bool { return min(r.conn, r.streams[id]) == 0 }
			r.until(spent)
			for _, n := range []int{1, 20_000} {
				r.streams[id] += n
				p.WriteWindowUpdate(id, uint32(n))
				r.until(spent)
				r.settle()
			}
			r.streams[id] -= window - 3
			acks := r.acks
			p.WriteSettings(http2.Setting{ID: setting.ID, Val: 3})
			r.until(func() bool { return r.acks > acks })
			r.streams[id] += window - 3
			p.WriteWindowUpdate(id, window-3)
			r.settle()
			r.streams[id] += 1 << 20
			p.WriteWindowUpdate(id, 1<<20) // more than the connection has
			r.until(spent)
			r.settle()
			if want := 1<<16 - 1; r.got != want {
				t.Errorf("got %d bytes, want %d", r.got, want)
			}
			r.conn += size
			p.WriteWindowUpdate(0, size)
			r.until(func() bool { return r.ended == 1 })
			if r.got != size {
				t.Errorf("got %d bytes of %d", r.got, size)
			}
			p.head(id, true, ":status", "204")
			p.drain()
		}, setting)
		first(c)
		upload(c, size)
	})
	t.Run("H15_shared", func(t *testing.T) {
		const uploads, size = 20, 30_000
		c := script(t, nil, func(p *peer) {
			p.head(p.request().StreamID, true, ":status", "204")
			r := &receiver{peer: p, conn: 1<<16 - 1, streams: make(map[uint32]int)}
			for r.ended < uploads {
				switch f := r.next().(type) {
				case nil:
					return
				case *http2.MetaHeadersFrame:
					r.streams[f.StreamID] = window
				case *http2.DataFrame:
					if f.StreamEnded() {
						p.head(f.StreamID, true, ":status", "204")
						continue
					}
					if r.streams[f.StreamID] == 0 {
						r.streams[f.StreamID] += 3000
						p.WriteWindowUpdate(f.StreamID, 3000)
					}
				}
				if r.conn == 0 {
					r.conn += 5000
					p.WriteWindowUpdate(0, 5000)
				}
			}
			if r.got != uploads*size {
				t.Errorf("got %d bytes of %d", r.got, uploads*size)
			}
			p.drain()
		}, setting, manyStreams)
		first(c)
		var wg sync.WaitGroup
		for range uploads {
			wg.Go(func() { upload(c, size) })
		}
		wg.Wait()
	})
}
