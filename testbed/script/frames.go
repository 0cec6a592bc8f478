package script

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames reads and writes HTTP/2 frames on a player's connection.
type frames struct {
	*http2.Framer
	fields  *hpack.Encoder
	encoded strings.Builder
}

var errorCodes = names(0, http2.ErrCodeHTTP11Required)

var settingNames = names(http2.SettingHeaderTableSize, http2.SettingEnableConnectProtocol)

// names are the RFC's names of a range of numbers.
func names[T interface {
	~uint16 | ~uint32
	fmt.Stringer
}](first, last T) map[string]T {
	m := make(map[string]T)
	for n := first; n <= last; n++ {
		m[n.String()] = n
	}
	return m
}

// frameNames are the frames that a script can name. FRAME is whatever else there may be.
var frameNames = map[string]http2.FrameType{
	"DATA": http2.FrameData, "HEADERS": http2.FrameHeaders, "RST_STREAM": http2.FrameRSTStream, "GOAWAY": http2.FrameGoAway,
	"PING": http2.FramePing, "SETTINGS": http2.FrameSettings, "WINDOW_UPDATE": http2.FrameWindowUpdate, "FRAME": anyFrame,
}

const anyFrame http2.FrameType = 0xff

func (p *player) framing() *frames {
	if p.frames == nil {
		f := &frames{Framer: http2.NewFramer(p.conn, p.in)}
		f.fields = hpack.NewEncoder(&f.encoded)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.AllowIllegalWrites = true
		p.frames = f
	}
	return p.frames
}

// beginHTTP2 is a server's part of RFC 9113 section 3.4.
func (p *player) beginHTTP2() error {
	if err := p.expect([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	if err := p.framing().WriteSettings(); err != nil {
		return err
	}
	f, err := p.frames.ReadFrame()
	if err != nil {
		return err
	}
	if s, ok := f.(*http2.SettingsFrame); !ok || s.IsAck() {
		return fmt.Errorf("got %s before SETTINGS", frame{f})
	}
	return p.frames.WriteSettingsAck()
}

// A frame prints what a test's author wants to know of it.
type frame struct{ http2.Frame }

func (f frame) name() string { return f.Header().Type.String() }

func (f frame) String() string {
	s := fmt.Sprintf("%s of stream %d", f.name(), f.Header().StreamID)
	switch f := f.Frame.(type) {
	case *http2.MetaHeadersFrame:
		s += fmt.Sprintf(" with %v", f.Fields)
	case *http2.DataFrame:
		s += fmt.Sprintf(" with %q", f.Data())
	case *http2.RSTStreamFrame:
		s += " with " + f.ErrCode.String()
	case *http2.GoAwayFrame:
		s += fmt.Sprintf(" with %s, last stream %d, %q", f.ErrCode, f.LastStreamID, f.DebugData())
	}
	return s
}

// next reads the next frame that is wanted, or that is none of a connection's housekeeping.
func (p *player) next(wanted http2.FrameType) (http2.Frame, error) {
	fr := p.framing()
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return nil, err
		}
		housekeeping := true
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = fr.WritePing(true, f.Data)
			}
		case *http2.WindowUpdateFrame, *http2.PriorityFrame:
		default:
			housekeeping = false
		}
		if err != nil {
			return nil, err
		}
		acks, ok := f.(*http2.SettingsFrame)
		if f.Header().Type == wanted && (!ok || !acks.IsAck()) || !housekeeping {
			return f, nil
		}
	}
}

// drainFrames reads until the other side closes; each frame that is not housekeeping must please judge.
func (p *player) drainFrames(judge func(frame) error) error {
	for {
		f, err := p.next(anyFrame)
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return ended(err)
		}
		if err := judge(frame{f}); err != nil {
			return err
		}
	}
}
