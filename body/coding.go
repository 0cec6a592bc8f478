package body

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A Coding is a content coding that can be undone, by its registered name in lower case.
type Coding string

const (
	Gzip    Coding = "gzip"    // RFC 1952, one or more members; x-gzip is the same
	Deflate Coding = "deflate" // RFC 1950 (zlib), or RFC 1951 without a wrapper
	Brotli  Coding = "br"      // RFC 7932
	Zstd    Coding = "zstd"    // RFC 8878 with the window bound of RFC 9659, one or more frames
)

// Codings returns all codings, in the order in which they are best offered. The slice is the caller's.
func Codings() []Coding { return []Coding{Gzip, Deflate, Brotli, Zstd} }

// ParseCoding returns the coding of a name as it stands in a Content-Encoding, in any case. The error lists the names
// there are.
func ParseCoding(name string) (Coding, error) {
	c := Coding(strings.ToLower(name))
	if c == "x-gzip" {
		c = Gzip
	}
	if !c.known() {
		return "", fmt.Errorf("unknown coding %q: use gzip, deflate, br or zstd", name)
	}
	return c, nil
}

func (c Coding) known() bool {
	_, ok := decoders[c]
	return ok
}

// A decoder undoes one coding.
type decoder interface {
	// Read returns decoded bytes as soon as there are any, without waiting for more input.
	// It returns io.EOF only after its input did, and need not repeat an error.
	io.Reader

	// reset makes the decoder ready for another input, whatever state it is in. nil lets go of the old one.
	reset(io.Reader)

	// keep reports whether the decoder is worth keeping for another body.
	keep() bool
}

// decoders holds idle decoders by coding. Only decoders that came to a proper end of their input get in.
var decoders = map[Coding]*sync.Pool{
	Gzip:    {New: func() any { return newGzipDecoder() }},
	Deflate: {New: func() any { return newDeflateDecoder() }},
	Brotli:  {New: func() any { return newBrotliDecoder() }},
	Zstd:    {New: func() any { return newZstdDecoder() }},
}

func (c Coding) open(in io.Reader) decoder {
	d := decoders[c].Get().(decoder)
	d.reset(in)
	return d
}

func (c Coding) put(d decoder) {
	if d.keep() {
		d.reset(nil)
		decoders[c].Put(d)
	}
}

// inputBytes is the size of the buffer that decoders without one of their own read through.
const inputBytes = 16 << 10

func newInput() *bufio.Reader { return bufio.NewReaderSize(nil, inputBytes) }

// cutShort turns an end of input in the middle of a stream into io.ErrUnexpectedEOF.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
