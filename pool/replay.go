package pool

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

var errAttemptOver = errors.New("request body is no longer read from this connection")

// replay is a request's body that can be sent twice: what is read of it is remembered up to a limit, until there is
// a response. Methods of a nil *replay, which is no body, may be called.
type replay struct {
	src   io.ReadCloser
	limit int64

	mu      sync.Mutex // guards the following
	kept    []byte     // what was read, as long as all of it is kept
	read    int64      // bytes taken from src
	err     error      // of src, io.EOF included
	lost    bool       // kept is not all of it
	settled bool       // there is a response: nothing is sent again
	reading bool       // a Read of src is in progress
	closed  bool       // src is closed
	current *attempt
}

func newReplay(req *http.Request, limit int64) *replay {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	return &replay{src: req.Body, limit: limit, lost: limit <= 0 || req.ContentLength > limit}
}

// attempt is the body for a first or second sending; it takes the place of the one before.
func (r *replay) attempt() io.ReadCloser {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = &attempt{r: r}
	return r.current
}

// rewind prepares another attempt and reports whether there can be one. The one before reads nothing more.
func (r *replay) rewind() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = nil
	failed := r.err != nil && r.err != io.EOF
	return !r.reading && !failed && (r.read == 0 || !r.lost)
}

// settle says that there is a response: nothing more is remembered, and Close closes.
func (r *replay) settle() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.settled = true
	shut := r.current != nil && r.current.closed
	r.mu.Unlock()
	if shut {
		r.close()
	}
}

// close closes the body once. It does not wait for a Read in progress, which may hold a lock that Close needs.
func (r *replay) close() error {
	r.mu.Lock()
	done, reading := r.closed, r.reading
	r.closed = true
	r.mu.Unlock()
	switch {
	case done:
		return nil
	case reading:
		go r.src.Close()
		return nil
	}
	return r.src.Close()
}

// finish ends the body of a request without a response and closes it. It reports whether a byte of it was
// taken, or may still be by a Read in progress.
func (r *replay) finish() (read bool) {
	if r == nil {
		return false
	}
	r.mu.Lock()
	r.current = nil
	read = r.read > 0 || r.reading
	r.mu.Unlock()
	r.close()
	return read
}

// attempt is the body as one connection reads it.
type attempt struct {
	r      *replay
	at     int  // of r.kept
	closed bool // by the connection; guarded by r.mu
}

func (a *attempt) Read(p []byte) (int, error) {
	r := a.r
	r.mu.Lock()
	switch {
	case r.current != a || a.closed:
		r.mu.Unlock()
		return 0, errAttemptOver
	case a.at < len(r.kept):
		n := copy(p, r.kept[a.at:])
		a.at += n
		r.mu.Unlock()
		return n, nil
	case r.err != nil:
		defer r.mu.Unlock()
		return 0, r.err
	}
	r.reading = true
	r.mu.Unlock()

	n, err := r.src.Read(p)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = false
	r.read += int64(n)
	r.err = err
	if r.settled || r.lost || r.read > r.limit {
		r.lost = true
		r.kept, a.at = nil, 0
	} else {
		r.kept = append(r.kept, p[:n]...)
		a.at += n
	}
	return n, err
}

// Close closes the body itself only when it cannot be needed again.
func (a *attempt) Close() error {
	r := a.r
	r.mu.Lock()
	a.closed = true
	shut := r.current == a && (r.settled || r.lost && r.read > 0)
	r.mu.Unlock()
	if shut {
		return r.close()
	}
	return nil
}
