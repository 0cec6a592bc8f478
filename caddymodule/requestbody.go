package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// requestBody closes a request's body only while no Read of it is under way: the one that reverse_proxy hands over must not
// be closed meanwhile, and HTTP/2 does so when the origin ends a request early.
type requestBody struct {
	body  io.ReadCloser
	atEOF func() // the trailer has come by then

	mu              sync.Mutex // guards what follows
	reading, closed bool
	err             error // of the body itself
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	b.reading = true
	b.mu.Unlock()

	n, err := b.body.Read(p)
	if err == io.EOF {
		b.atEOF()
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	switch {
	case b.closed:
		b.body.Close()
	case err != nil && err != io.EOF:
		b.err = err
	}
	return n, err
}

// Close leaves the closing to a Read under way. The server closes the body in any case when the request is over.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if b.reading {
		return nil
	}
	return b.body.Close()
}

// uploadFailure is why the body of a request that was sent could not be read to its end; nil: it could, or was not to be.
func uploadFailure(out *http.Request) error {
	b, ok := out.Body.(*requestBody)
	if !ok {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// uploadError says what is wrong with a request's body. Another handler's word on the status counts.
func uploadError(n *need, failure error) *Error {
	e := &Error{Code: "request_body_failed", Stage: "roundtrip", Target: n.addr, code: http.StatusBadRequest,
		Err: fmt.Errorf("the request's body could not be read: %w", failure)}
	if isTimeout(failure) {
		e.code = http.StatusRequestTimeout
	}
	if he, ok := errors.AsType[caddyhttp.HandlerError](failure); ok && he.StatusCode != 0 {
		e.code = he.StatusCode
	}
	if _, ok := errors.AsType[*http.MaxBytesError](failure); ok {
		e.Code, e.code = "request_body_too_large", http.StatusRequestEntityTooLarge
	}
	return e
}

// refuseUpload answers a request whose body failed while it was sent. It is a response and not an error, because it is the
// client's doing: reverse_proxy must neither try again nor count it as the origin's failure, or one client could have the origin
// taken for dead.
func (t *Transport) refuseUpload(req *http.Request, n *need, failure error) *http.Response {
	e := uploadError(n, failure)
	_ = t.failed(req, e) // the client gets a response
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", e.code, http.StatusText(e.code)),
		StatusCode: e.code,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Proxy-Status": {"caddy; error=http_request_error"}},
		Body:       http.NoBody,
		Request:    req,
	}
}
