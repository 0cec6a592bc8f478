package body

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// decoded is a body whose codings are undone as it is read. Close may be called during a Read: it only closes the body
// beneath. The decoders belong to Read alone, which gives them back when they came to their end.
type decoded struct {
	body   io.ReadCloser
	closed atomic.Bool

	mu     sync.Mutex // held through Read; guards the following
	source meter
	stages []*stage
	out    meter
	begun  []byte // decoded by begin, not yet read
	err    error
	res    *http.Response // whose trailers lose their digests at the end

	onError func(error)
}

// newDecoded undoes the codings of body, which has the bytes of res.Body.
func newDecoded(res *http.Response, body io.Reader, codings []Coding, limit int64) *decoded {
	b := &decoded{body: res.Body, res: res}
	b.source = newMeter(body, limit, true)
	in := &b.source
	for i, c := range slices.Backward(codings) {
		s := &stage{coding: c, in: in, outermost: in == &b.source}
		s.dec = s.coding.open(in)
		b.stages = append(b.stages, s)
		m := newMeter(s, limit, i > 0)
		in = &m
	}
	b.out = *in
	return b
}

// begin decodes the first bytes, which Read will give: at least and at most so many, unless the body has less, and reports
// whether it has. It returns the error that comes with or before them.
func (b *decoded) begin(least, most int) (all bool, err error) {
	var buf []byte
	for len(buf) < least {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(beginBytes, len(buf)))
		}
		n, _, err := b.read(buf[len(buf):min(cap(buf), most)])
		buf = buf[:len(buf)+n]
		if all = err == io.EOF; all {
			break
		}
		if err != nil {
			return false, err
		}
	}
	b.begun = buf
	return all, nil
}

func (b *decoded) Read(p []byte) (int, error) {
	n, failed, err := b.read(p)
	if failed && b.onError != nil {
		b.onError(err)
	}
	return n, err
}

// read reports in failed, once, that the body cannot be read to its end.
func (b *decoded) read(p []byte) (n int, failed bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return 0, false, http.ErrBodyReadAfterClose
	}
	if len(b.begun) > 0 {
		n = copy(p, b.begun)
		b.begun = b.begun[n:]
		return n, false, nil
	}
	if b.err != nil || len(p) == 0 {
		return 0, false, b.err
	}
	n, err = b.out.Read(p)
	if err == nil {
		return n, false, nil
	}
	if err == io.EOF {
		dropDigests(b.res.Trailer)
		for _, s := range b.stages {
			s.coding.put(s.dec)
		}
	} else if b.closed.Load() {
		err = http.ErrBodyReadAfterClose
	} else {
		failed = true
	}
	b.err, b.stages, b.source, b.out = err, nil, meter{}, meter{}
	return n, failed, err
}

// Close closes the body beneath, which ends a Read that waits for it. Later calls do nothing.
func (b *decoded) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.body.Close()
}

// stage is one coding of a body, between the meter it reads and the meter that reads it.
type stage struct {
	coding    Coding
	in        *meter
	dec       decoder
	outermost bool  // in is the body as it came
	err       error // found together with bytes, for the next Read
}

// emptyReads is how often in a row a decoder may return neither bytes nor an error.
const emptyReads = 100

func (s *stage) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	for range emptyReads {
		n, err := s.dec.Read(p)
		if err != nil {
			s.err = s.explain(err)
		}
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, s.err
		}
	}
	s.err = io.ErrNoProgress
	return 0, s.err
}

// explain says what an error of the decoder means. A failing input comes first: decoders pass its error on as
// they please, and one takes an io.ErrUnexpectedEOF between two frames for a proper end.
func (s *stage) explain(err error) error {
	failed := s.in.failed()
	empty := s.in.err == io.EOF && !s.in.any
	switch {
	case failed != nil:
		return failed
	case empty && s.outermost:
		return io.EOF
	case empty:
		err = io.ErrUnexpectedEOF
	case err == io.EOF:
		return io.EOF
	}
	return &DecodeError{Coding: s.coding, Err: err}
}
