package script

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// sayFrame compiles "<- FRAME args".
func sayFrame(kind http2.FrameType, args []token) (func(*player) error, error) {
	switch kind {
	case http2.FrameSettings:
		list, err := settings(args)
		return func(p *player) error { return p.framing().WriteSettings(list...) }, err
	case http2.FramePing:
		return func(p *player) error { return p.framing().WritePing(false, [8]byte{'s', 'c', 'r', 'i', 'p', 't'}) }, nil
	case anyFrame:
		return sayAny(args)
	}
	if len(args) == 0 {
		return nil, errors.New("wants a stream")
	}
	args, stream, err := cutStream(args)
	if err != nil {
		return nil, err
	}
	switch kind {
	case http2.FrameHeaders:
		return sayHeaders(stream, args)
	case http2.FrameData:
		return sayData(stream, args)
	case http2.FrameRSTStream:
		code, rest, err := cutCode(args)
		if len(rest) > 0 {
			err = errors.New("wants a stream and a code")
		}
		return func(p *player) error { return p.framing().WriteRSTStream(stream, code) }, err
	case http2.FrameGoAway:
		code, rest, err := cutCode(args)
		if err != nil {
			return nil, err
		}
		debug, err := items(rest)
		return func(p *player) error { return p.framing().WriteGoAway(stream, code, debug) }, err
	default: // WINDOW_UPDATE
		if len(args) != 1 {
			return nil, errors.New("wants a stream and an increment")
		}
		n, err := strconv.ParseUint(args[0].word, 10, 32)
		return func(p *player) error { return p.framing().WriteWindowUpdate(stream, uint32(n)) }, err
	}
}

func sayHeaders(stream uint32, args []token) (func(*player) error, error) {
	args, end := cutWord(args, "END_STREAM")
	for _, t := range args {
		if !t.field {
			return nil, fmt.Errorf("%q is not a field", t.word)
		}
	}
	return func(p *player) error {
		fr := p.framing()
		fr.encoded.Reset()
		for _, t := range args {
			if err := fr.fields.WriteField(hpack.HeaderField{Name: t.word, Value: t.value}); err != nil {
				return err
			}
		}
		return fr.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: []byte(fr.encoded.String()), EndHeaders: true, EndStream: end,
		})
	}, nil
}

func sayData(stream uint32, args []token) (func(*player) error, error) {
	args, end := cutWord(args, "END_STREAM")
	var pad []byte
	if n := len(args); n > 0 && args[n-1].field && args[n-1].word == "pad" {
		length, err := strconv.ParseUint(args[n-1].value, 10, 8)
		if err != nil {
			return nil, err
		}
		args, pad = args[:n-1], make([]byte, length)
	}
	data, err := items(args)
	return func(p *player) error { return p.framing().WriteDataPadded(stream, end, data, pad) }, err
}

// sayAny compiles "<- FRAME type flags stream ITEMS", numbers as in Go.
func sayAny(args []token) (func(*player) error, error) {
	if len(args) < 3 {
		return nil, errors.New("wants a type, flags and a stream")
	}
	kind, err1 := strconv.ParseUint(args[0].word, 0, 8)
	flags, err2 := strconv.ParseUint(args[1].word, 0, 8)
	stream, err3 := strconv.ParseUint(args[2].word, 0, 32)
	payload, err4 := items(args[3:])
	return func(p *player) error {
		return p.framing().WriteRawFrame(http2.FrameType(kind), http2.Flags(flags), uint32(stream), payload)
	}, errors.Join(err1, err2, err3, err4)
}

// cutCode takes an error code from the front.
func cutCode(args []token) (http2.ErrCode, []token, error) {
	if len(args) > 0 && !args[0].quoted {
		if code, known := errorCodes[args[0].word]; known {
			return code, args[1:], nil
		}
	}
	return 0, nil, errors.New("wants an error code")
}
