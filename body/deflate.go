package body

import (
	"bufio"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// gzipDecoder reads member by member: gzip.Reader's own way waits for the next member's header before it
// gives the last bytes of the one before.
type gzipDecoder struct {
	in     *bufio.Reader
	z      gzip.Reader
	inside bool // a member is open
}

func newGzipDecoder() *gzipDecoder { return &gzipDecoder{in: newInput()} }

func (d *gzipDecoder) Read(p []byte) (int, error) {
	for {
		if !d.inside {
			if _, err := d.in.Peek(1); err != nil {
				return 0, err
			}
			if err := d.z.Reset(d.in); err != nil {
				return 0, cutShort(err)
			}
			d.z.Multistream(false)
			d.inside = true
		}
		n, err := d.z.Read(p)
		if err == io.EOF {
			d.inside = false
			if n == 0 {
				continue
			}
			err = nil
		}
		return n, err
	}
}

func (d *gzipDecoder) reset(in io.Reader) {
	d.in.Reset(in)
	d.inside = false
}

func (d *gzipDecoder) keep() bool { return true }

// deflateDecoder takes both forms that are sent under the name.
type deflateDecoder struct {
	in        *bufio.Reader
	zlib, raw io.ReadCloser // kept from body to body; nil until first needed
	current   io.Reader     // one of them; nil until the first two bytes are there
	ended     bool
}

func newDeflateDecoder() *deflateDecoder { return &deflateDecoder{in: newInput()} }

func (d *deflateDecoder) Read(p []byte) (int, error) {
	if d.current == nil {
		if err := d.choose(); err != nil {
			return 0, err
		}
	}
	if !d.ended {
		n, err := d.current.Read(p)
		if err != io.EOF {
			return n, err
		}
		d.ended = true
		if n > 0 {
			return n, nil
		}
	}
	if _, err := d.in.Peek(1); err != nil {
		return 0, err
	}
	return 0, errTrailingBytes
}

// choose opens the body as zlib when its first two bytes are a zlib header, else as raw DEFLATE. No raw stream looks
// like one unless it begins with a stored block whose padding bits are set, which no encoder does.
func (d *deflateDecoder) choose() (err error) {
	head, err := d.in.Peek(2)
	if len(head) == 0 {
		return err
	}
	if err != nil {
		return cutShort(err)
	}
	isZlib := head[0]&0x0f == 8 && head[0]>>4 <= 7 && (uint(head[0])<<8|uint(head[1]))%31 == 0
	switch {
	case isZlib && d.zlib == nil:
		d.zlib, err = zlib.NewReader(d.in)
	case isZlib:
		err = d.zlib.(zlib.Resetter).Reset(d.in, nil)
	case d.raw == nil:
		d.raw = flate.NewReader(d.in)
	default:
		err = d.raw.(flate.Resetter).Reset(d.in, nil)
	}
	if err != nil {
		return cutShort(err)
	}
	d.current = d.raw
	if isZlib {
		d.current = d.zlib
	}
	return nil
}

func (d *deflateDecoder) reset(in io.Reader) {
	d.in.Reset(in)
	d.current, d.ended = nil, false
}

func (d *deflateDecoder) keep() bool { return true }
