package body

import (
	"errors"
	"fmt"
)

// A Code is a stable word for one kind of failure, for logs, metrics and documentation.
type Code string

const (
	CodeTooLarge     Code = "body_too_large"     // TooLargeError
	CodeDecodeFailed Code = "body_decode_failed" // DecodeError
	CodeIncomplete   Code = "body_incomplete"    // any other: the body beneath failed before its end
)

// CodeOf returns the code of an error of a guarded body's Read, or of Guard.Response.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[interface {
		error
		Code() Code
	}](err); ok {
		return e.Code()
	}
	return CodeIncomplete
}

// A TooLargeError says that a body has more bytes than its cap allows.
type TooLargeError struct {
	Limit    int64 // the cap in bytes
	Declared int64 // the declared length in bytes when that alone was too much; 0: found while reading
	Wire     bool  // the bytes counted were those that came from the origin or between two codings, not decoded ones
}

func (e *TooLargeError) Error() string {
	what := "decoded response body"
	if e.Wire {
		what = "response body as received"
	}
	if e.Declared > 0 {
		return fmt.Sprintf("%s has %d bytes, the cap is %d: raise max_body_bytes to let it pass [%s]", what, e.Declared, e.Limit, CodeTooLarge)
	}
	return fmt.Sprintf("%s has more than %d bytes, which is the cap: raise max_body_bytes to let it pass [%s]", what, e.Limit, CodeTooLarge)
}

// Code returns CodeTooLarge.
func (e *TooLargeError) Code() Code { return CodeTooLarge }

// A DecodeError says that a body is not what its Content-Encoding says it is. Bytes delivered before it were decoded
// from what came before the fault, but no checksum has confirmed them.
type DecodeError struct {
	Coding Coding // the coding that could not be undone
	Err    error  // io.ErrUnexpectedEOF when the body ended too early, else what the decoder found
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("response body is not valid %s: %v [%s]", e.Coding, e.Err, CodeDecodeFailed)
}

// Unwrap returns the decoder's error.
func (e *DecodeError) Unwrap() error { return e.Err }

// Code returns CodeDecodeFailed.
func (e *DecodeError) Code() Code { return CodeDecodeFailed }

var errTrailingBytes = errors.New("bytes behind the end of the stream")
