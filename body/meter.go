package body

import (
	"io"
	"math"
	"sync/atomic"
)

// A meter counts the bytes of r and lets no more than its cap through. Its errors are sticky.
type meter struct {
	r    io.Reader
	left int64          // bytes that may still pass
	over *TooLargeError // the error of one byte more
	err  error

	any bool // at least one byte passed
}

// newMeter returns a meter with a cap of limit bytes; negative: none. wire is what its error says was counted.
func newMeter(r io.Reader, limit int64, wire bool) meter {
	if limit < 0 {
		return meter{r: r, left: math.MaxInt64}
	}
	return meter{r: r, left: limit, over: &TooLargeError{Limit: limit, Wire: wire}}
}

// Read asks for one byte beyond the cap at most, which is how a body of exactly the cap is told from a longer one.
func (m *meter) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	if int64(len(p))-1 > m.left {
		p = p[:m.left+1]
	}
	n, err := m.r.Read(p)
	if int64(n) > m.left {
		n, err = int(m.left), m.over
	}
	m.left -= int64(n)
	m.any = m.any || n > 0
	m.err = err
	return n, err
}

// failed returns the error that ended m, unless m is still going or came to its proper end.
func (m *meter) failed() error {
	if m.err == io.EOF {
		return nil
	}
	return m.err
}

// passed is a body that passes as it is, up to its cap.
type passed struct {
	meter
	body    io.ReadCloser
	closed  atomic.Bool
	onError func(error) // nil once it was called
}

func newPassed(body io.ReadCloser, limit int64, onError func(error)) *passed {
	return &passed{meter: newMeter(body, limit, true), body: body, onError: onError}
}

func (b *passed) Read(p []byte) (int, error) {
	n, err := b.meter.Read(p)
	if err != nil && err != io.EOF && b.onError != nil && !b.closed.Load() {
		b.onError(err)
		b.onError = nil
	}
	return n, err
}

func (b *passed) Close() error {
	b.closed.Store(true)
	return b.body.Close()
}
