package pool

import (
	"context"
	"net/http"
)

// Conn is one HTTP connection. All methods may be called concurrently.
//
// An error of RoundTrip may have these methods, each a fact about the failed request:
//
//	Unprocessed() bool // the origin provably did not process it
//	Unanswered() bool  // no byte of a response arrived
//	Refused() bool     // the origin took no more requests on this connection
//	Invalid() bool     // no connection could send it
//
//	HTTP11Required() bool // the origin wants HTTP/1.1 in place of HTTP/2
type Conn interface {
	// RoundTrip sends a request in a slot that Reserve took. The slot is free again when the
	// response's body was read to its end or closed. On error it closes the request's body.
	RoundTrip(*http.Request) (*http.Response, error)
	// Reserve takes the slot of one request, and reports whether there was one. It does not block, and may find out that
	// the connection is dead.
	Reserve() bool
	// Release gives back a slot that was not used.
	Release()
	// Shareable reports whether more than one request may be in flight (HTTP/2). It is constant.
	Shareable() bool
	// InFlight is the number of slots taken.
	InFlight() int
	// Err is non-nil once the connection is not usable for new requests.
	Err() error
	// Notify sets what is called after a slot became free or the connection turned out to be dead, with no lock held. If it
	// is dead already, f is called as well. A connection that idles need not notice that its peer has closed it.
	Notify(f func())
	// Close closes the connection with all that is in flight on it, without waiting.
	Close() error
}

// DialFunc makes a connection for one request: ctx is that request's and bounds the making only. m is of the
// request's identity; a connection that may be one of HTTP/2 is one of HTTP/1.1 where m.HTTP11Required.
type DialFunc func(ctx context.Context, m *Memory) (Conn, error)

// Identity says which requests may share a connection: those whose Identity is equal.
type Identity struct {
	Key  [32]byte // a keyed hash of all that shapes a connection, secrets included
	Addr string   // the origin's network and address: what MaxConnsPerHost counts by

	// HTTP11 says that HTTP/1.1 will do where the origin requires it. A request that it has refused over HTTP/2 is then sent
	// over HTTP/1.1, and so are all further ones of the identity for as long as it is remembered.
	HTTP11 bool

	Sharing Sharing
}

// Sharing says whether requests share the connections of an identity, as far as that is known before there is one. Where they
// do, a request waits for the connection that is being made, in place of making another one.
type Sharing uint8

const (
	Unshared   Sharing = iota // they do not, or nothing is known
	AsLastTime                // as they did on the newest connection to Addr of another such identity
	Shared                    // they do
)
