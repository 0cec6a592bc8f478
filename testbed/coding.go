package testbed

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// encoder produces one content coding. Flush makes everything written so far decodable.
type encoder interface {
	io.WriteCloser
	Flush() error
}

// codingNames are the codings the origin can produce. rawdeflate is announced as deflate and has no zlib wrapper.
func codingNames() []string { return []string{"gzip", "deflate", "rawdeflate", "br", "zstd"} }

func unknownCoding(coding string) error {
	return fmt.Errorf("%w %q: it can be one of %s", ErrUnknownCoding, coding, strings.Join(codingNames(), ", "))
}

// newEncoder returns an encoder of this coding that writes to w. window is zstd's, in bytes; 0: the encoder's own.
// Closing the encoder does not close w.
func newEncoder(coding string, w io.Writer, window int) (encoder, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewWriter(w), nil
	case "deflate":
		return zlib.NewWriter(w), nil
	case "rawdeflate":
		return flate.NewWriter(w, flate.DefaultCompression)
	case "br":
		return brotli.NewWriterLevel(w, 4), nil
	case "zstd":
		options := []zstd.EOption{zstd.WithEncoderConcurrency(1)}
		if window > 0 {
			options = append(options, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		}
		return zstd.NewWriter(w, options...)
	}
	return nil, unknownCoding(coding)
}

// contentCoding is the name of a coding in Content-Encoding.
func contentCoding(coding string) string {
	if coding == "rawdeflate" {
		return "deflate"
	}
	return coding
}

// encoders is a stack of codings in the order in which they are applied. Empty, it passes bytes on.
type encoders struct {
	io.Writer
	stack []encoder // outermost, that is the last applied, first
}

// newEncoders stacks the codings on top of w. The caller closes it unless there is an error.
func newEncoders(codings []string, w io.Writer, window int) (*encoders, error) {
	e := &encoders{Writer: w}
	for _, coding := range slices.Backward(codings) {
		next, err := newEncoder(coding, e.Writer, window)
		if err != nil {
			return nil, err
		}
		e.Writer = next
		e.stack = append(e.stack, next)
	}
	return e, nil
}

// Flush makes everything written so far decodable.
func (e *encoders) Flush() error {
	for _, inner := range slices.Backward(e.stack) {
		if err := inner.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends every coding.
func (e *encoders) Close() error {
	for _, inner := range slices.Backward(e.stack) {
		if err := inner.Close(); err != nil {
			return err
		}
	}
	return nil
}

// offered picks the coding that the client's Accept-Encoding asks for: the first that it lists with a weight above
// zero and that the origin can produce; nil: identity.
func offered(acceptEncoding []string) []string {
	for token := range strings.SplitSeq(strings.Join(acceptEncoding, ","), ",") {
		name, parameter, _ := strings.Cut(token, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // what is no number refuses the coding
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if weight > 0 && name != "rawdeflate" && slices.Contains(codingNames(), name) {
			return []string{name}
		}
	}
	return nil
}
