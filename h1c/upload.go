package h1c

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sniffTime is how long a request waits for the first bytes of a body that may have none.
	sniffTime = 200 * time.Millisecond
	// chunkRoom is for the size line of a chunk, in front of its data.
	chunkRoom = len("ffffffff\r\n")
)

// errNotSent is a body that was kept back, because the answer came before it was asked for.
var errNotSent = errors.New("request body was not sent")

// upload is a request's body on its way, on a goroutine of its own.
type upload struct {
	x    *exchange
	body io.ReadCloser
	left int64  // bytes of a declared length that were not sent; negative: in chunks
	head []byte // of the request, which goes with the first piece; nil: it was sent

	sniffed chan struct{} // closed when the first bytes are there; nil: nobody waits for them
	proceed chan bool     // whether to send; nil: at once
	ending  atomic.Bool   // the last piece is on its way
	ended   chan struct{} // closed at the end

	beyond   [1]byte // for what should not come behind a declared length
	first    int     // bytes that sniffing has read
	firstErr error

	mu      sync.Mutex // guards the following
	reading bool       // a Read of body is under way
	closed  bool
}

// run sends the body and tells the exchange how it went.
func (u *upload) run() {
	defer close(u.ended)
	size := u.x.c.cfg.writeBuffer()
	buf := takeBuffer(size)
	err := u.send((*buf)[:size:size])
	giveBuffer(buf)
	u.close()
	u.x.uploaded(err)
}

// send is run without what surrounds it. A failed write comes as *writeError.
func (u *upload) send(buf []byte) error {
	if u.sniffed != nil {
		u.first, u.firstErr = u.read(u.room(buf, 0))
		close(u.sniffed)
	}
	if u.proceed != nil && !u.await() {
		if u.sniffed != nil && u.first == 0 && u.firstErr == io.EOF {
			return nil
		}
		return errNotSent
	}
	for {
		sent := copy(buf, u.head)
		u.head = nil
		room := u.room(buf, sent)
		n, err := u.first, u.firstErr
		if u.first, u.firstErr = 0, nil; n == 0 && err == nil {
			n, err = u.read(room)
		}
		if err == nil && n > 0 && int64(n) == u.left {
			err = u.expectEnd()
		}
		last := err == io.EOF
		if err != nil && !last {
			return err
		}
		out, err := u.frame(buf, sent, n, last)
		if err != nil {
			return err
		}
		u.ending.Store(last)
		if len(out) > 0 {
			if _, err := u.x.c.wire.Write(out); err != nil {
				return &writeError{err}
			}
			if sent > 0 {
				u.x.wroteHead()
			}
		}
		if last {
			return nil
		}
	}
}

// settle waits for an upload of which the peer has seen the end, so that its slot is free with the response's end.
func (u *upload) settle() {
	if !u.ending.Load() {
		return
	}
	select {
	case <-u.ended:
	case <-time.After(uploadGrace):
	}
}

// await waits until it is said whether to send the body. A body that the peer is to ask for is sent after a time anyway.
func (u *upload) await() bool {
	var timeout <-chan time.Time
	if u.x.head.expects {
		timer := time.NewTimer(u.x.c.cfg.ExpectContinueTimeout)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case ok := <-u.proceed:
		return ok
	case <-timeout:
		return true
	}
}

// let says whether to send the body. Only the first time counts.
func (u *upload) let(ok bool) {
	select {
	case u.proceed <- ok: // nobody waits on a nil channel
	default:
	}
}

// room is where the next piece is read to, behind what buf begins with.
func (u *upload) room(buf []byte, begin int) []byte {
	if u.left >= 0 {
		return buf[begin:min(int64(len(buf)), int64(begin)+u.left)]
	}
	return buf[begin+chunkRoom : len(buf)-len("\r\n")]
}

// frame makes what is written of a piece of n bytes that room gave, with what buf begins with in front.
func (u *upload) frame(buf []byte, begin, n int, last bool) ([]byte, error) {
	if u.left >= 0 {
		if u.left -= int64(n); last && u.left > 0 {
			return nil, u.wrongLength(-u.left)
		}
		return buf[:begin+n], nil
	}
	out := buf[:begin]
	if n > 0 {
		size := strconv.AppendInt(make([]byte, 0, chunkRoom), int64(n), 16)
		size = append(size, "\r\n"...)
		data := begin + chunkRoom
		copy(buf[data-len(size):], size)
		if begin > 0 && len(size) < chunkRoom { // what stands in front moves up to the size
			copy(buf[chunkRoom-len(size):], buf[:begin])
		}
		out = append(buf[chunkRoom-len(size):data+n], "\r\n"...)
	}
	if last {
		out = append(out, "0\r\n"...)
		out = appendTrailer(out, u.x.req.Trailer)
		out = append(out, "\r\n"...)
	}
	return out, nil
}

// expectEnd waits for the end of a body of which all but the last piece was sent, and gives io.EOF. Whoever lent the body may
// look at it once the peer has answered: by then no Read of it should be under way.
func (u *upload) expectEnd() error {
	for {
		n, err := u.read(u.beyond[:])
		switch {
		case n > 0:
			return u.wrongLength(int64(n))
		case err != nil:
			return err
		}
	}
}

func (u *upload) wrongLength(more int64) error {
	length := u.x.req.ContentLength
	if more > 0 {
		return fmt.Errorf("request body is longer than its length of %d bytes", length)
	}
	return fmt.Errorf("request body has %d bytes in place of %d", length+more, length)
}

func (u *upload) read(p []byte) (int, error) {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	u.reading = true
	u.mu.Unlock()

	n, err := u.body.Read(p)

	u.mu.Lock()
	u.reading = false
	u.mu.Unlock()
	return n, err
}

// close closes the body once. It does not wait for a Read under way, which may hold a lock that Close needs.
func (u *upload) close() {
	u.mu.Lock()
	closed, reading := u.closed, u.reading
	u.closed = true
	u.mu.Unlock()
	switch {
	case closed:
	case reading:
		go u.body.Close()
	default:
		u.body.Close()
	}
}

// writeError is a write of the conn that failed, which does not keep the answer from coming.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

func (e *writeError) Unwrap() error { return e.err }

// wroteRequest tells trace that the request is sent, or why not.
func wroteRequest(trace *httptrace.ClientTrace, err error) {
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
}
