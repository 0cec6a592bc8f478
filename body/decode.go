package body

import (
	"errors"
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
	err    error
	res    *http.Response // whose trailers lose their digests at the end
	onCap  func(*TooLargeError)
}

func newDecoded(res *http.Response, codings []Coding, limit int64, onCap func(*TooLargeError)) *decoded {
	b := &decoded{body: res.Body, res: res, onCap: onCap}
	b.source = newMeter(res.Body, limit, true)
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

func (b *decoded) Read(p []byte) (int, error) {
	n, over, err := b.read(p)
	if over != nil && b.onCap != nil {
		b.onCap(over)
	}
	return n, err
}

// read returns in over the cap's error once, in the call that runs into it.
func (b *decoded) read(p []byte) (n int, over *TooLargeError, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return 0, nil, http.ErrBodyReadAfterClose
	}
	if b.err != nil || len(p) == 0 {
		return 0, nil, b.err
	}
	n, err = b.out.Read(p)
	if err == nil {
		return n, nil, nil
	}
	if err == io.EOF {
		dropDigests(b.res.Trailer)
		for _, s := range b.stages {
			s.coding.put(s.dec)
		}
	} else if b.closed.Load() {
		err = http.ErrBodyReadAfterClose
	} else {
		errors.As(err, &over)
	}
	b.err, b.stages, b.source, b.out = err, nil, meter{}, meter{}
	return n, over, err
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
