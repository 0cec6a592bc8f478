package body

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// DefaultMaxBytes is the cap of bodies that are decoded when none is written down: 32 MiB.
const DefaultMaxBytes = 32 << 20

// A Guard decides what happens to the bodies of a route's responses. The zero value lets everything pass untouched.
// Its methods may be called concurrently; its fields must not be changed meanwhile.
type Guard struct {
	// MaxBytes is the most bytes of a body that are delivered: decoded bytes where the Guard decodes (and as many
	// encoded ones), else bytes as they came. Zero means DefaultMaxBytes for bodies that are decoded, except event
	// streams and gRPC, and none for others. A positive number applies to all bodies. Negative: no cap.
	// Responses without a body (to HEAD, 204, 304) and upgraded streams (101) are never capped.
	MaxBytes int64

	// Decode lists the codings that are offered to origins and undone, in the order they are offered.
	// Nil: nothing is offered, and bytes pass as they are.
	Decode []Coding

	// OnError, if not nil, is called when the Read of a body fails, and not because the body was closed: once a response,
	// from the goroutine that reads. CodeOf says what it is. What Response returns is not reported again. It must not
	// read the body.
	OnError func(error)
}

// Request prepares the header of a request that is about to be sent, which must be the caller's own copy, and reports
// whether the answer may be decoded. Accept-Encoding becomes the Guard's codings; or identity, when the request
// has a Range or accepts no coding. With a Cache-Control of no-transform, and without Decode, nothing is changed.
func (g *Guard) Request(h http.Header) bool {
	offers := make([]string, 0, len(g.Decode))
	for _, c := range g.Decode {
		if c.known() {
			offers = append(offers, string(c))
		}
	}
	if len(offers) == 0 || noTransform(h) {
		return false
	}
	if wantsIdentity(h) {
		h.Set("Accept-Encoding", "identity")
		return false
	}
	h.Set("Accept-Encoding", strings.Join(offers, ", "))
	return true
}

// Response puts res.Body behind the Guard and edits the fields that decoding changes. req is the request as it was
// sent or as it was before Request: both say the same. After an error res is as it was, and closing it is the
// caller's. A declared length over the cap is such an error, a *TooLargeError, and nothing was read then. Where a body of
// declared length is decoded, Response waits for its first bytes, so that their errors are found while another answer
// can be given; one that is small and has come with its head is decoded as a whole, and keeps a length. Of other bodies,
// event streams and gRPC nothing is read. Without an error, closing res.Body, also while a Read is under
// way, closes the body beneath.
//
// The new body's Read returns what is there instead of filling the buffer. Its errors are sticky: *TooLargeError,
// *DecodeError, or the error of the body beneath as it is. io.EOF means that the body beneath ended too, so res.Trailer
// is filled.
func (g *Guard) Response(req *http.Request, res *http.Response) error {
	switch res.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusNoContent:
		return nil
	case http.StatusNotModified:
		g.notModified(req, res)
		return nil
	}
	codings := g.undoable(req, res)
	if req.Method == http.MethodHead {
		if codings != nil {
			editHeader(res)
		}
		return nil
	}
	limit := g.limit(res.Header, codings != nil)
	if limit >= 0 && res.ContentLength > limit {
		return &TooLargeError{Limit: limit, Declared: res.ContentLength, Wire: true}
	}
	empty := res.Body == nil || res.Body == http.NoBody || res.ContentLength == 0
	switch {
	case codings != nil && !empty:
		return g.decode(res, codings, limit)
	case !empty && (limit >= 0 || g.OnError != nil):
		res.Body = newPassed(res.Body, limit, g.OnError)
	}
	if codings != nil {
		editHeader(res)
	}
	return nil
}

// decode puts a body that is not empty behind its decoders.
func (g *Guard) decode(res *http.Response, codings []Coding, limit int64) error {
	var in io.Reader = res.Body
	least, most := 0, 0
	if res.ContentLength > 0 && !endless(res.Header) {
		small := takeSmall(res)
		in, least, most = small, 1, beginBytes
		if small.whole() {
			least, most = smallDecoded, smallDecoded
		}
	}
	b := newDecoded(res, in, codings, limit)
	all, err := b.begin(least, most)
	if err != nil {
		return err
	}
	b.onError = g.OnError
	res.Body = b
	editHeader(res)
	if all {
		res.ContentLength = int64(len(b.begun))
		res.Header.Set("Content-Length", strconv.Itoa(len(b.begun)))
	}
	return nil
}

// limit returns the cap of a body in bytes, negative for none.
func (g *Guard) limit(h http.Header, decoding bool) int64 {
	switch {
	case g.MaxBytes != 0:
		return max(g.MaxBytes, -1)
	case decoding && !endless(h):
		return DefaultMaxBytes
	}
	return -1
}

// endless reports whether a body is one of those that have no natural size: event streams and gRPC.
func endless(h http.Header) bool {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "text/event-stream" || strings.HasPrefix(media, "application/grpc")
}
