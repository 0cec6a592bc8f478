package pool

import (
	"context"
	"errors"
)

// errUnusable is a connection that has no slot for the request it was made for.
var errUnusable = errors.New("connection closed before its first request")

// Stage is how far a request came.
type Stage string

const (
	StageWait      Stage = "wait"      // for a connection; nothing was dialed for this request
	StageDial      Stage = "dial"      // a connection to send it on
	StageRoundTrip Stage = "roundtrip" // it was given to a connection
)

// Error is a request that got no response. The cause is what Unwrap gives: what the DialFunc or the Conn
// returned, or the end of the request's context (errors.Is with context.Canceled or DeadlineExceeded).
type Error struct {
	Stage Stage
	// BodyRead says that at least one byte of the request's body was taken from it: whoever sends the request
	// again with what is left sends a part of it. False: the body is as it was, or there is none.
	BodyRead bool
	Err      error
}

func (e *Error) Error() string { return string(e.Stage) + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit ended the request.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// Temporary makes *Error a net.Error, so that what looks for one finds Timeout.
func (e *Error) Temporary() bool { return e.Timeout() }

// ended is err, or what ended ctx where that is the reason.
func ended(ctx context.Context, err error) error {
	if cerr := ctx.Err(); cerr != nil && !errors.Is(err, cerr) {
		return cerr
	}
	return err
}
