package script

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"golang.org/x/net/http2"
)

// hearFrame compiles "-> FRAME args".
func hearFrame(kind http2.FrameType, args []token) (func(*player) error, error) {
	args, stream, err := cutStream(args)
	if err != nil {
		return nil, err
	}
	want := hoped{kind: kind, stream: stream}
	args, want.end = cutWord(args, "END_STREAM")
	if kind == http2.FrameData {
		want.data, err = items(args)
		return want.hearData, err
	}
	if kind == http2.FrameSettings {
		want.settings, err = settings(args)
		return want.hearFrame, err
	}
	args, want.ack = cutWord(args, "ACK")
	for _, t := range args {
		code, known := errorCodes[t.word]
		switch {
		case t.field && kind == http2.FrameHeaders:
			want.fields = append(want.fields, t)
		case known && !t.quoted && kind == http2.FrameRSTStream:
			want.code = &code
		default:
			return nil, fmt.Errorf("does not know %q here", t.word)
		}
	}
	if kind == anyFrame {
		return nil, errors.New("FRAME can only be sent")
	}
	return want.hearFrame, nil
}

// A hoped frame is what a script says of one that is to come.
type hoped struct {
	kind     http2.FrameType
	stream   uint32 // 0: any
	end      bool
	ack      bool
	fields   []token
	code     *http2.ErrCode
	settings []http2.Setting
	data     []byte
}

func (h hoped) hearFrame(p *player) error {
	f, err := p.next(h.kind)
	if err != nil {
		return err
	}
	got := frame{f}
	if f.Header().Type != h.kind || h.stream != 0 && f.Header().StreamID != h.stream {
		return fmt.Errorf("got %s", got)
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if h.end && !f.StreamEnded() {
			return fmt.Errorf("got %s, and the stream goes on", got)
		}
		for _, want := range h.fields {
			if !hasField(f, want) {
				return fmt.Errorf("got %s", got)
			}
		}
	case *http2.RSTStreamFrame:
		if h.code != nil && f.ErrCode != *h.code {
			return fmt.Errorf("got %s", got)
		}
	case *http2.PingFrame:
		if f.IsAck() != h.ack {
			return fmt.Errorf("got a PING, and whether it acknowledges one is %t", f.IsAck())
		}
	case *http2.SettingsFrame:
		return h.judgeSettings(f)
	}
	return nil
}

func hasField(f *http2.MetaHeadersFrame, want token) bool {
	for _, field := range f.Fields {
		if field.Name == want.word && field.Value == want.value {
			return true
		}
	}
	return false
}

func (h hoped) judgeSettings(f *http2.SettingsFrame) error {
	want, got := map[http2.SettingID]uint32{}, map[http2.SettingID]uint32{}
	for _, s := range h.settings {
		want[s.ID] = s.Val
	}
	_ = f.ForeachSetting(func(s http2.Setting) error {
		got[s.ID] = s.Val
		return nil
	})
	if len(want) > 0 && !maps.Equal(want, got) {
		return fmt.Errorf("got %v", got)
	}
	return nil
}

// hearData gathers DATA, and gives its window back.
func (h hoped) hearData(p *player) error {
	var got []byte
	for {
		f, err := p.next(http2.FrameData)
		if err != nil {
			return fmt.Errorf("got only %q: %w", got, err)
		}
		data, ok := f.(*http2.DataFrame)
		if !ok || h.stream != 0 && data.StreamID != h.stream {
			return fmt.Errorf("got %s after %q", frame{f}, got)
		}
		got = append(got, data.Data()...)
		short := len(got) < len(h.data)
		if len(h.data) > 0 && !bytes.HasPrefix(h.data, got) || short && data.StreamEnded() {
			return fmt.Errorf("got only %q", got)
		}
		if err := p.giveBack(data); err != nil {
			return err
		}
		if len(h.data) == 0 && !h.end || !short && (!h.end || data.StreamEnded()) {
			return nil
		}
	}
}

// giveBack returns the window that DATA took.
func (p *player) giveBack(data *http2.DataFrame) error {
	if data.Length == 0 {
		return nil
	}
	err := p.frames.WriteWindowUpdate(0, data.Length)
	if err == nil && !data.StreamEnded() {
		err = p.frames.WriteWindowUpdate(data.StreamID, data.Length)
	}
	return err
}

// cutStream takes a stream's number from the front.
func cutStream(args []token) ([]token, uint32, error) {
	if len(args) == 0 || args[0].quoted || args[0].field {
		return args, 0, nil
	}
	n, err := strconv.ParseUint(args[0].word, 10, 32)
	if errors.Is(err, strconv.ErrSyntax) {
		return args, 0, nil
	}
	return args[1:], uint32(n), err
}

// cutWord takes a word from the end.
func cutWord(args []token, word string) ([]token, bool) {
	if n := len(args); n > 0 && args[n-1].word == word && !args[n-1].quoted {
		return args[:n-1], true
	}
	return args, false
}

func settings(args []token) (out []http2.Setting, err error) {
	for _, t := range args {
		id, known := settingNames[t.word]
		value, err := strconv.ParseUint(t.value, 10, 32)
		if !known || !t.field || err != nil {
			return nil, fmt.Errorf("%q is not a setting with a number", t.word)
		}
		out = append(out, http2.Setting{ID: id, Val: uint32(value)})
	}
	return out, nil
}
