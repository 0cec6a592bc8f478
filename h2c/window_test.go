package h2c

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/net/http2"
)

var manyStreams = http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1000}

// TestSlowReaders has a peer send all it may to readers that do not read.
func TestSlowReaders(t *testing.T) {
	t.Run("H14_bytes_that_wait", func(t *testing.T) {
		const readers, window, size = 100, 64 << 10, 200_000
		waiting := make(chan struct{})
		c := script(t, &Config{StreamWindow: window}, func(p *peer) {
			s := newSender(p)
			var ids []uint32
			sent := make(map[uint32]int)
			for range readers {
				ids = append(ids, s.answer())
			}
			for range 2 {
				for _, id := range ids {
					sent[id] += s.fill(id, size)
					if sent[id] == 0 || sent[id] > window {
						t.Errorf("%d bytes wait in stream %d", sent[id], id)
					}
				}
				s.settle()
			}
			close(waiting)
			s.send(s.answer(), size) // none of them holds up another
			for _, id := range ids {
				s.send(id, size-sent[id])
			}
			p.drain()
		}, manyStreams)
		var slow []*http.Response
		for range readers {
			slow = append(slow, answered(t, c))
		}
		<-waiting
		readAll(t, answered(t, c), size)
		var wg sync.WaitGroup
		for _, res := range slow {
			wg.Go(func() { readAll(t, res, size) })
		}
		wg.Wait()
	})
	t.Run("H14_window_by_default", func(t *testing.T) {
		const size = 5 << 20
		c := script(t, nil, func(p *peer) {
			s := newSender(p)
			id := s.answer()
			s.settle()
			if s.streams[id] > 1<<20 {
				t.Errorf("the window is %d bytes", s.streams[id])
			}
			s.send(id, size)
			p.drain()
		})
		readAll(t, answered(t, c), size)
	})
	t.Run("H14_streams_fit_the_connection", func(t *testing.T) {
		windows := make(chan [2]int, 1)
		c := script(t, &Config{StreamWindow: 4<<20 - 1}, func(p *peer) {
			s := newSender(p)
			id := s.answer()
			s.settle()
			windows <- [2]int{s.conn, s.streams[id]}
			p.drain()
		}, manyStreams)
		defer answered(t, c).Body.Close()
		got, streams := <-windows, 1
		for c.Reserve() {
			defer c.Release()
			streams++
		}
		if streams < 100 || streams*got[1] > got[0] {
			t.Errorf("%d streams of %d bytes in a window of %d", streams, got[1], got[0])
		}
	})
}

func answered(t *testing.T, c *Conn) *http.Response {
	t.Helper()
	reserve(t, c)
	res, err := c.RoundTrip(get(t))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func readAll(t *testing.T, res *http.Response, size int64) {
	t.Helper()
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size {
		t.Errorf("%d of %d bytes, %v", n, size, err)
	}
}

// TestTinyReads has a peer fill a stream's window, and a reader that takes a few bytes at a time: the peer is told in pieces that
// are worth a frame, and has a whole window to send in, whatever the size of the reads.
func TestTinyReads(t *testing.T) {
	const window, size = 64 << 10, 600_000
	for name, piece := range map[string]int{"H15_1_byte": 1, "H15_100_bytes": 100, "H15_5000_bytes": 5000, "H15_64_KiB": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			full, read := make(chan struct{}), make(chan struct{})
			c := script(t, &Config{StreamWindow: window}, func(p *peer) {
				s := newSender(p)
				id := s.answer()
				sent := s.fill(id, size)
				close(full)
				for sent < size {
					if s.next() == nil {
						t.Errorf("%d bytes sent", sent)
						return
					}
					sent += s.fill(id, size-sent)
				}
				<-read
				s.settle()
				if s.streams[id] < window/2 || s.conn < 1<<16 {
					t.Errorf("all is read, and the windows are %d and %d", s.streams[id], s.conn)
				}
				if most := 2*size/4096 + 10; s.updates > most {
					t.Errorf("%d WINDOW_UPDATE frames, want at most %d", s.updates, most)
				}
				p.WriteData(id, true, nil)
				p.drain()
			})
			res := answered(t, c)
			defer res.Body.Close()
			<-full
			buf := make([]byte, piece)
			for left := size; left > 0; {
				n, err := res.Body.Read(buf[:min(piece, left)])
				if left -= n; err != nil {
					t.Fatalf("%d bytes left: %v", left, err)
				}
			}
			close(read)
			if n, err := res.Body.Read(buf); n != 0 || err != io.EOF {
				t.Errorf("%d bytes and %v at the end", n, err)
			}
		})
	}
}
