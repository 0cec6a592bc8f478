package h2c

import (
	"bytes"

	"golang.org/x/net/http2"
)

// sender is a peer that sends all it may, and counts what it is given.
type sender struct {
	*peer
	initial int            // a stream's window to begin with
	conn    int            // the connection's window
	streams map[uint32]int // the streams' windows
	updates int            // WINDOW_UPDATE frames
	pongs   int
}

func newSender(p *peer) *sender {
	return &sender{peer: p, initial: 1<<16 - 1, conn: 1<<16 - 1, streams: make(map[uint32]int)}
}

// next reads a frame. It is nil when the connection has ended.
func (s *sender) next() http2.Frame {
	f, err := s.ReadFrame()
	if err != nil {
		return nil
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		s.streams[f.StreamID] = s.initial
	case *http2.SettingsFrame:
		if n, ok := f.Value(http2.SettingInitialWindowSize); ok {
			s.initial = int(n)
		}
		if !f.IsAck() {
			s.WriteSettingsAck()
		}
	case *http2.WindowUpdateFrame:
		s.updates++
		if f.StreamID == 0 {
			s.conn += int(f.Increment)
		} else {
			s.streams[f.StreamID] += int(f.Increment)
		}
	case *http2.PingFrame:
		if f.IsAck() {
			s.pongs++
		} else {
			s.WritePing(true, f.Data)
		}
	}
	return f
}

// answer reads up to a request and answers it with a head.
func (s *sender) answer() (id uint32) {
	for {
		f := s.next()
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			s.head(h.StreamID, false, ":status", "200")
			return h.StreamID
		}
		if f == nil {
			s.t.Error("no request")
			return 0
		}
	}
}

// settle reads all that was sent before the answer to a PING.
func (s *sender) settle() {
	s.WritePing(false, [8]byte{})
	for before := s.pongs; s.pongs == before; {
		if s.next() == nil {
			s.t.Error("no answer to PING")
			return
		}
	}
}

// fill sends what the windows allow now, at most so much.
func (s *sender) fill(id uint32, most int) (sent int) {
	for {
		n := min(16<<10, most-sent, s.conn, s.streams[id])
		if n <= 0 {
			return sent
		}
		s.WriteData(id, false, bytes.Repeat([]byte("x"), n))
		s.conn, s.streams[id], sent = s.conn-n, s.streams[id]-n, sent+n
	}
}

// send sends so many bytes, as the windows allow it, and ends the stream.
func (s *sender) send(id uint32, size int) {
	for size -= s.fill(id, size); size > 0; size -= s.fill(id, size) {
		if s.next() == nil {
			s.t.Errorf("%d bytes could not be sent", size)
			return
		}
	}
	s.WriteData(id, true, nil)
}
