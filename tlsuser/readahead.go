package tlsuser

import (
	"errors"
	"math/bits"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// errNothingHere is a Read that would have to wait.
var errNothingHere net.Error = nothingHereError{}

type nothingHereError struct{}

func (nothingHereError) Error() string   { return "nothing is buffered" }
func (nothingHereError) Timeout() bool   { return false }
func (nothingHereError) Temporary() bool { return true }

// DefaultReadAhead is the size of a ReadAhead that is given none.
const DefaultReadAhead = 64 << 10

// ReadAhead is a net.Conn that decides how much is asked of the conn beneath in one read: never more than its
// size, and no less where the conn has proved to have it. Its reads return as soon as any byte is there.
//
// A Read goes straight into the caller's slice. When that came back full although the slice was smaller than the
// size, the next one goes through a buffer of the full size, which is shared by all connections: it is taken for
// one fill and goes back when it is drained. So a connection that idles holds no buffer, unless its last read
// filled everything it was given.
//
// All methods may be called concurrently. Everything but Read goes to the conn beneath, whose errors are returned
// as they are: crypto/tls goes on after a timeout only if the error itself says so.
type ReadAhead struct {
	net.Conn
	size     int
	deadline atomic.Int64 // Unix nanoseconds of the read deadline; 0: none
	closed   atomic.Bool
	gather   atomic.Bool

	mu         sync.Mutex // guards what follows; held while reading
	buf        *[]byte    // nil, or holds the bytes from start to end
	start, end int
	err        error // comes after the bytes in buf
	more       bool  // the last read came back full: read through a buffer
}

// NewReadAhead puts a ceiling of size bytes on every read of conn, which belongs to the ReadAhead from now on.
// A size of zero or less means DefaultReadAhead.
func NewReadAhead(conn net.Conn, size int) *ReadAhead {
	if size <= 0 {
		size = DefaultReadAhead
	}
	return &ReadAhead{Conn: conn, size: size}
}

// Read returns what is buffered, else what one read of the conn beneath gives.
func (r *ReadAhead) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf == nil {
		if err := r.err; err != nil {
			r.err = nil
			return 0, err
		}
		if r.gather.Load() {
			return 0, errNothingHere
		}
		if !r.more || len(p) >= r.size {
			ask := min(len(p), r.size)
			n, err := r.Conn.Read(p[:ask])
			r.more = n > 0 && n == ask && ask < r.size
			return n, err
		}
		if n, err := r.fill(); n == 0 {
			return 0, err
		}
	}
	if r.closed.Load() {
		r.drop()
		return 0, net.ErrClosed
	}
	if d := r.deadline.Load(); d != 0 && time.Now().UnixNano() >= d {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, (*r.buf)[r.start:r.end])
	r.start += n
	if r.start == r.end {
		r.drop()
	}
	return n, nil
}

// Gather makes reads answer at once: while it is on, a Read that finds nothing buffered does not ask the conn beneath and
// returns an error whose Temporary() is true. crypto/tls passes that on, and its next Read goes on as if nothing had
// been asked: so whoever reads above it gets the records that are here, and does not wait where one is a session ticket
// or a part. It is for the goroutine that reads.
func (r *ReadAhead) Gather(on bool) { r.gather.Store(on) }

// Fill reads once from the conn beneath into a buffer, unless something is buffered. It waits as Read does.
func (r *ReadAhead) Fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf != nil || r.err != nil {
		return nil
	}
	n, err := r.fill()
	if n > 0 {
		return nil
	}
	return err
}

// fill takes a buffer and reads into it. Without a byte read there is no buffer afterwards.
func (r *ReadAhead) fill() (int, error) {
	buf := takeBuffer(r.size)
	n, err := r.Conn.Read((*buf)[:r.size])
	r.more = n == r.size
	if n == 0 {
		giveBuffer(buf)
		return 0, err
	}
	r.buf, r.start, r.end, r.err = buf, 0, n, err
	return n, nil
}

func (r *ReadAhead) drop() {
	giveBuffer(r.buf)
	r.buf, r.start, r.end = nil, 0, 0
}

// Close closes the conn beneath. Bytes that are still buffered are lost, as those in a socket's buffer are.
func (r *ReadAhead) Close() error {
	r.closed.Store(true)
	err := r.Conn.Close()
	// A Read that is under way owns the buffer, and may be blocked.
	if r.mu.TryLock() {
		if r.buf != nil {
			r.drop()
			r.err = net.ErrClosed
		}
		r.mu.Unlock()
	}
	return err
}

// CloseWrite closes the writing side of the conn beneath, or returns errors.ErrUnsupported if that cannot.
func (r *ReadAhead) CloseWrite() error {
	if half, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline is SetReadDeadline and SetWriteDeadline in one.
func (r *ReadAhead) SetDeadline(t time.Time) error {
	r.noteDeadline(t)
	return r.Conn.SetDeadline(t)
}

// SetReadDeadline bounds reads, of buffered bytes too.
func (r *ReadAhead) SetReadDeadline(t time.Time) error {
	r.noteDeadline(t)
	return r.Conn.SetReadDeadline(t)
}

func (r *ReadAhead) noteDeadline(t time.Time) {
	switch {
	case t.IsZero(), t.Year() > 2200: // beyond what nanoseconds can hold
		r.deadline.Store(0)
	case t.Year() < 1971:
		r.deadline.Store(1)
	default:
		r.deadline.Store(t.UnixNano())
	}
}

// NetConn returns the conn beneath. What is buffered does not come from its reads any more.
func (r *ReadAhead) NetConn() net.Conn { return r.Conn }

// buffers holds idle read buffers, by the power of two that bounds their size.
var buffers [bits.UintSize]sync.Pool

func takeBuffer(size int) *[]byte {
	class := bits.Len(uint(size - 1))
	if buf, ok := buffers[class].Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 1<<class)
	return &buf
}

func giveBuffer(buf *[]byte) {
	buffers[bits.Len(uint(len(*buf)-1))].Put(buf)
}
