package h1c

import (
	"errors"
	"net"
	"os"
)

// ErrClosed is the cause where a connection cannot take new requests: it was closed, it died, or it now
// speaks another protocol.
var ErrClosed = errors.New("HTTP/1.1 connection takes no more requests")

// errNoSlot is a RoundTrip without the Reserve that belongs to it.
var errNoSlot = errors.New("no slot was reserved for the request")

// What a peer sends that HTTP/1.1 does not allow, or more of it than is taken.
var (
	errHeadTooLarge   = errors.New("the head of the response is too large")
	errLineTooLong    = errors.New("a line of the chunked coding is too long")
	errTrailerTooLong = errors.New("the trailer section is too large")
	errChunkLine      = errors.New("a line of the chunked coding does not end in CRLF")
	errChunkSize      = errors.New("invalid size of a chunk")
	errChunkEnd       = errors.New("a chunk does not end in CRLF")
	errChunkExcess    = errors.New("the chunked coding has too little data in it")
)

// malformed is a part of a response that is not as it must be. It is not shown: a peer may send back what it was sent,
// credentials included.
func malformed(part string) error { return errors.New("malformed " + part) }

// headTimeoutError is a response whose head came too late.
type headTimeoutError struct{}

func (headTimeoutError) Error() string   { return "timeout while waiting for the head of the response" }
func (headTimeoutError) Timeout() bool   { return true }
func (headTimeoutError) Temporary() bool { return true }
func (headTimeoutError) Unwrap() error   { return os.ErrDeadlineExceeded }

// What can fail.
const (
	opRoundTrip = "round trip"
	opBody      = "response body"
)

// Error is a request that got no response, or a body that ended too early. The cause is what Unwrap gives; where the request's context
// ended, errors.Is(err, context.Canceled) or context.DeadlineExceeded holds.
type Error struct {
	Op  string // what failed: "round trip" or "response body"
	Err error

	unprocessed, unanswered, invalid bool
}

// Error says what failed, and quotes nothing of what the peer said.
func (e *Error) Error() string { return "HTTP/1.1 " + e.Op + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit ended the request.
func (e *Error) Timeout() bool { return isTimeout(e.Err) }

// Temporary makes *Error a net.Error, so that what looks for one finds Timeout.
func (e *Error) Temporary() bool { return e.Timeout() }

// Unprocessed reports that the peer provably did not process the request, because no byte of it was
// written: sending it again is safe whatever its method.
func (e *Error) Unprocessed() bool { return e.unprocessed }

// Unanswered reports that no byte of a response arrived, not even of an interim one.
func (e *Error) Unanswered() bool { return e.unanswered }

// Invalid reports that the request cannot be sent on any connection: a field or its URL is not valid.
func (e *Error) Invalid() bool { return e.invalid }

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
