package h2c

import (
	"context"
	"errors"
	"net"
	"strings"

	"golang.org/x/net/http2"
)

// ErrClosed is the cause where a connection cannot take new requests: it was closed, it died, or the
// peer has sent GOAWAY.
var ErrClosed = errors.New("HTTP/2 connection takes no more requests")

// ErrSilent is the cause where a connection failed because its peer left a PING unanswered. It is a timeout.
var ErrSilent error = silence{}

type silence struct{}

func (silence) Error() string   { return "the peer does not answer PING" }
func (silence) Timeout() bool   { return true }
func (silence) Temporary() bool { return false }

// Error is a request that got no response, or a body that ended too early. The cause is what Unwrap gives; where the request's context
// ended, errors.Is(err, context.Canceled) or context.DeadlineExceeded holds.
type Error struct {
	Op  string // what failed: "new", "round trip", "response body" or "connect"
	Err error

	unprocessed, unanswered, refused, http11, invalid bool
}

// Error says what failed, and quotes nothing of what the peer said, neither the debug data of a GOAWAY nor a field that is
// not valid: a peer may send back what it was sent, credentials included.
func (e *Error) Error() string {
	text, _, _ := strings.Cut(e.Err.Error(), ", debug=")
	if !e.invalid {
		text, _, _ = strings.Cut(text, `"`)
		text = strings.TrimRight(text, " ")
	}
	return "HTTP/2 " + e.Op + ": " + text
}

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit ended the request.
func (e *Error) Timeout() bool {
	var ne net.Error
	return errors.As(e.Err, &ne) && ne.Timeout()
}

// Temporary makes *Error a net.Error, so that what looks for one finds Timeout.
func (e *Error) Temporary() bool { return e.Timeout() }

// Unprocessed reports that the peer provably did not process the request, so that sending it again is
// safe whatever its method: no header frame was written, the stream lies above the last one that GOAWAY
// names, or it was reset with REFUSED_STREAM, or with HTTP_1_1_REQUIRED, which asks for just that.
func (e *Error) Unprocessed() bool { return e.unprocessed }

// Unanswered reports that no header block of a response arrived, not even an interim one.
func (e *Error) Unanswered() bool { return e.unanswered }

// Refused reports REFUSED_STREAM: the peer takes no more requests on this connection for now.
func (e *Error) Refused() bool { return e.refused }

// Invalid reports that the request cannot be sent on any connection to this peer: a field or its URL is not
// valid, or its head is too large for it.
func (e *Error) Invalid() bool { return e.invalid }

// HTTP11Required reports that the peer asks for this request over HTTP/1.1 (RFC 9113 section 7,
// HTTP_1_1_REQUIRED).
func (e *Error) HTTP11Required() bool { return e.http11 }

// The errors of net/http's engine that have neither a type nor a value of their own; a test provokes each.
const (
	textGoAway     = "http2: Transport received Server's graceful shutdown GOAWAY"
	textGoAwayCode = "http2: Transport received GOAWAY from server ErrCode:"
	textGoneAway   = "http2: server sent GOAWAY and closed the connection; "
	textUnusable   = "http2: client conn not usable"
	textSilent     = "http2: client connection lost"

	textNotEstablished = "http2: client conn could not be established"
)

// cause is err as what looks at its type may see it.
func cause(err error) error {
	if err.Error() == textSilent {
		return ErrSilent
	}
	return err
}

// classify makes the Error of a round trip that failed. wrote says that the request's header block was
// handed to the connection, answered that a header block came back, alive that the connection goes on.
func classify(ctx context.Context, op string, err error, wrote, answered, alive bool) *Error {
	e := &Error{Op: op, Err: cause(err), unanswered: !answered}
	if cerr := ctx.Err(); cerr != nil {
		if !errors.Is(err, cerr) {
			e.Err = cerr
		}
		return e
	}
	var se http2.StreamError
	switch {
	case errors.As(err, &se):
		e.refused = se.Code == http2.ErrCodeRefusedStream
		e.http11 = se.Code == http2.ErrCodeHTTP11Required
		e.unprocessed = (e.refused || e.http11) && !answered
	case !answered && (err.Error() == textGoAway || strings.HasPrefix(err.Error(), textGoAwayCode)):
		e.unprocessed = true
		e.http11 = strings.HasSuffix(err.Error(), http2.ErrCodeHTTP11Required.String())
	case strings.HasPrefix(err.Error(), textGoneAway):
		said, _, _ := strings.Cut(err.Error(), ", debug=")
		e.http11 = strings.HasSuffix(said, http2.ErrCodeHTTP11Required.String())
	case !wrote:
		e.unprocessed = true
		e.invalid = alive && !errors.Is(err, ErrClosed)
	}
	return e
}
