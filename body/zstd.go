package body

import (
	"bufio"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdWindow is the largest window that a content coding may ask for (RFC 9659).
const zstdWindow = 8 << 20

type zstdDecoder struct {
	in *bufio.Reader
	r  *zstd.Decoder
}

// newZstdDecoder makes the decoder synchronous: no goroutines to end, nothing read ahead.
func newZstdDecoder() *zstdDecoder {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(zstdWindow))
	if err != nil {
		panic("body: internal error: " + err.Error()) // the options are constants
	}
	return &zstdDecoder{in: newInput(), r: r}
}

func (d *zstdDecoder) Read(p []byte) (int, error) { return d.r.Read(p) }

// reset cannot fail: the decoder is never closed, and a synchronous one reads nothing before Read.
func (d *zstdDecoder) reset(in io.Reader) {
	d.in.Reset(in)
	if in == nil {
		_ = d.r.Reset(nil)
		return
	}
	_ = d.r.Reset(d.in)
}

func (d *zstdDecoder) keep() bool { return true }
