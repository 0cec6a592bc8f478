package h1c

import (
	"context"
	"errors"
	"net"
	"strings"
)

// ErrClosed is the cause where a connection cannot take new requests: it was closed, it died, or it now
// speaks another protocol.
var ErrClosed = errors.New("HTTP/1.1 connection takes no more requests")

// Error is a request that got no response, or a body that ended too early. The cause is what Unwrap gives; where the request's context
// ended, errors.Is(err, context.Canceled) or context.DeadlineExceeded holds.
type Error struct {
	Op  string // what failed: "new", "round trip" or "response body"
	Err error

	unprocessed, unanswered, invalid bool
}

// Error says what failed, and quotes nothing of what the peer said: it may send back what it was sent, credentials included.
func (e *Error) Error() string {
	text := e.Err.Error()
	if !e.invalid {
		text, _, _ = strings.Cut(text, `"`)
		text = strings.TrimRight(text, ": [")
	}
	return "HTTP/1.1 " + e.Op + ": " + text
}

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit ended the request.
func (e *Error) Timeout() bool {
	var ne net.Error
	return errors.As(e.Err, &ne) && ne.Timeout()
}

// Temporary makes *Error a net.Error, so that what looks for one finds Timeout.
func (e *Error) Temporary() bool { return e.Timeout() }

// Unprocessed reports that the peer provably did not process the request, because no byte of it was
// written: sending it again is safe whatever its method.
func (e *Error) Unprocessed() bool { return e.unprocessed }

// Unanswered reports that no byte of a response arrived, not even of an interim one.
func (e *Error) Unanswered() bool { return e.unanswered }

// Invalid reports that the request cannot be sent on any connection: a field or its URL is not valid.
func (e *Error) Invalid() bool { return e.invalid }

// classify makes the Error of a round trip that failed, from how many bytes went either way and whether
// the connection lives on.
func classify(ctx context.Context, err error, written, read int64, alive bool) *Error {
	e := &Error{Op: "round trip", Err: err, unanswered: read == 0}
	if cerr := ctx.Err(); cerr != nil {
		if !errors.Is(err, cerr) {
			e.Err = cerr
		}
		return e
	}
	e.unprocessed = written == 0
	e.invalid = e.unprocessed && alive
	return e
}
