package body

import (
	"io"

	"github.com/andybalholm/brotli"
)

// brotliKept is the most output after which a decoder is kept: its window grows with what it decodes, to 16 MiB.
const brotliKept = 1 << 20

type brotliDecoder struct {
	r   *brotli.Reader
	out int64 // bytes decoded since the last reset
}

func newBrotliDecoder() *brotliDecoder { return &brotliDecoder{r: brotli.NewReader(nil)} }

func (d *brotliDecoder) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.out += int64(n)
	return n, err
}

func (d *brotliDecoder) reset(in io.Reader) {
	_ = d.r.Reset(in) // never fails
	d.out = 0
}

func (d *brotliDecoder) keep() bool { return d.out <= brotliKept }
