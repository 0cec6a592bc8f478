package testbed

import "errors"

var (
	// ErrNoStream is returned by Origin.Ack for an event stream that is not open.
	ErrNoStream = errors.New("testbed: no such event stream")

	// ErrUnknownCoding is wrapped by the error that names a content coding the origin cannot produce.
	ErrUnknownCoding = errors.New("testbed: unknown content coding")

	// ErrUnknownDialect is wrapped by NewProxy's error for a dialect that is not one of the constants.
	ErrUnknownDialect = errors.New("testbed: unknown dialect")
)
