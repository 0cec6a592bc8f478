package h1c

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"
)

const (
	// answerGrace is how long a peer that takes no more of a request may take to begin its answer.
	answerGrace = 5 * time.Second
	// uploadGrace is how long a request's body may go on after the end of its response before the connection is closed.
	uploadGrace = 50 * time.Millisecond
)

// exchange is one request and its response, from the slot taken to the slot free.
type exchange struct {
	c     *Conn
	req   *http.Request
	head  requestHead
	trace *httptrace.ClientTrace
	stop  func() bool // ends the watch over the context; nil: it never ends
	up    *upload     // nil: the body, if any, goes with the head
	last  bool        // the connection takes no request after this one

	// Guarded by c.mu.
	cause    error       // why the connection was closed
	unsent   error       // why the request was not sent as a whole
	sent     bool        // it was, or will not be
	answered bool        // the response is over; only the upload is not
	linger   *time.Timer // of an upload that goes on alone
	over     bool
}

// RoundTrip sends req in the slot taken by Reserve and returns once the response's head is there. The
// request line is in origin form; Host is req.Host, else URL.Host. Neither req nor its header is changed, and no field
// is added but those that delimit the body. Interim responses, a 101 excepted, go to the Got1xxResponse of an
// httptrace.ClientTrace in req's context, whose error ends the request.
//
// The caller closes the response's body; a body closed before its end closes the connection. ctx of req
// bounds the whole exchange, body included. The body of a 101 is an *Upgraded. Errors are *Error, and req.Body is closed.
//
// The request's body is read on a goroutine of its own, unless it is one of those of bytes and strings and short. RoundTrip
// does not wait for it: after an early answer or an error a Read of it may still be under way. The body is closed at
// the same time, in the background, and whatever that Read gives is dropped.
func (c *Conn) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{c: c, req: req, trace: httptrace.ContextClientTrace(req.Context())}
	err := x.head.prepare(req)
	if cerr := req.Context().Err(); cerr != nil || err != nil {
		c.Release()
		closeBody(req)
		if cerr != nil {
			return nil, &Error{Op: opRoundTrip, Err: cerr, unanswered: true}
		}
		return nil, &Error{Op: opRoundTrip, Err: err, unprocessed: true, unanswered: true, invalid: true}
	}
	x.last = x.head.last
	if err := c.begin(x); err != nil {
		closeBody(req)
		return nil, &Error{Op: opRoundTrip, Err: err, unprocessed: true, unanswered: true}
	}
	if req.Context().Done() != nil {
		x.stop = context.AfterFunc(req.Context(), x.cancelled)
	}
	var m *message
	if err = x.send(); err == nil {
		m, err = x.receive()
	}
	if err != nil {
		err = x.abort(err)
		c.in.release()
		return nil, x.failed(err)
	}
	return x.respond(m), nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// cancelled is called when the request's context ends.
func (x *exchange) cancelled() { x.fail(x.req.Context().Err()) }

// failed makes the error of the round trip.
func (x *exchange) failed(err error) *Error {
	e := &Error{Op: opRoundTrip, Err: err, unanswered: x.c.wire.read == 0}
	if cerr := x.req.Context().Err(); cerr != nil {
		e.Err = cerr
		return e
	}
	e.unprocessed = x.c.wire.written.Load() == 0
	return e
}

// receive reads the response's head, and the interim ones before it.
func (x *exchange) receive() (*message, error) {
	in, limit := &x.c.in, x.c.cfg.maxResponseHeader()
	if x.trace != nil && x.trace.GotFirstResponseByte != nil {
		if n, err := in.fill(true); n == 0 {
			return nil, x.readFailed(err)
		}
		x.trace.GotFirstResponseByte()
	}
	for {
		head, err := in.head("HTTP/", limit)
		if err != nil {
			return nil, x.readFailed(err)
		}
		limit -= int64(len(head))
		m, err := parseResponse(head, x.head.method)
		if err != nil {
			return nil, err
		}
		if m.StatusCode >= 200 || m.StatusCode == http.StatusSwitchingProtocols {
			x.c.wire.headCame()
			x.last = x.last || m.last
			if x.up != nil && x.head.expects {
				x.up.let(!x.last || m.StatusCode == http.StatusSwitchingProtocols)
			}
			return m, nil
		}
		if m.StatusCode == http.StatusContinue && x.up != nil && x.head.expects {
			if x.trace != nil && x.trace.Got100Continue != nil {
				x.trace.Got100Continue()
			}
			x.up.let(true)
		}
		if x.trace != nil && x.trace.Got1xxResponse != nil {
			if err := x.trace.Got1xxResponse(m.StatusCode, textproto.MIMEHeader(m.Header)); err != nil {
				return nil, err
			}
			limit = x.c.cfg.maxResponseHeader() // who looks at them can bound them
		}
	}
}

// readFailed is why no head came, where a failed write or a time limit is the better reason.
func (x *exchange) readFailed(err error) error {
	x.c.mu.Lock()
	unsent := x.unsent
	x.c.mu.Unlock()
	switch {
	case !isTimeout(err):
		return err
	case unsent != nil:
		return unsent
	case x.c.wire.headLate():
		return headTimeoutError{}
	}
	return err
}

// respond makes the response that the caller gets.
func (x *exchange) respond(m *message) *http.Response {
	res := &m.Response
	res.Request, res.TLS = x.req, x.c.tls
	switch {
	case m.switches():
		res.Body = x.upgrade()
	case m.framing == noBody:
		res.Body = http.NoBody
		x.finish()
	default:
		b := &body{x: x, res: res, framing: m.framing, left: m.ContentLength}
		b.chunks.in = &x.c.in
		res.Body = b
	}
	return res
}

// fail closes the connection for a reason that is not the peer's.
func (x *exchange) fail(err error) {
	x.c.mu.Lock()
	if x.over {
		x.c.mu.Unlock()
		return
	}
	if x.cause == nil {
		x.cause = err
	}
	x.c.mu.Unlock()
	_ = x.c.closeFor(err)
}

// abort ends the exchange, and the connection with it, unless it is over. It gives the reason, of which err is one.
func (x *exchange) abort(err error) error {
	c := x.c
	c.mu.Lock()
	if x.over || x.answered {
		c.mu.Unlock()
		return err
	}
	x.over = true
	if x.cause != nil {
		err = x.cause
	}
	c.mu.Unlock()
	if x.stop != nil {
		x.stop()
	}
	if cerr := x.req.Context().Err(); cerr != nil {
		err = cerr
	}
	_ = c.closeFor(err)
	if x.up != nil {
		x.up.let(false)
		x.up.close()
	}
	return err
}

// finish ends the response. The slot is free when the upload is over as well, which has uploadGrace for it.
func (x *exchange) finish() {
	c := x.c
	if x.stop != nil {
		x.stop()
	}
	in := &c.in
	clean := !x.last && in.buffered() == 0 && !in.unwanted && (in.err == nil)
	in.release()
	if x.up != nil {
		x.up.settle()
	}
	c.mu.Lock()
	switch {
	case x.over:
		c.mu.Unlock()
	case !clean || c.err != nil || x.unsent != nil:
		x.over = true
		c.mu.Unlock()
		c.Close()
		if x.up != nil {
			x.up.let(false)
			x.up.close()
		}
	case !x.sent:
		x.answered = true
		x.linger = time.AfterFunc(uploadGrace, x.lingered)
		c.mu.Unlock()
	default:
		c.free(x)
	}
}

// lingered gives up an upload that outlasts its response.
func (x *exchange) lingered() {
	x.fail(errNotSent)
	x.up.close()
}

// uploaded takes note of how the request's body went.
func (x *exchange) uploaded(err error) {
	c := x.c
	_, write := errors.AsType[*writeError](err)
	kept := errors.Is(err, errNotSent)
	wroteRequest(x.trace, err)
	if err == nil && c.cfg.ResponseHeaderTimeout > 0 {
		c.wire.awaitHead(c.cfg.ResponseHeaderTimeout)
	}
	c.mu.Lock()
	x.sent = true
	if x.unsent == nil {
		x.unsent = err
	}
	answered := x.answered && !x.over
	if answered {
		x.linger.Stop()
	}
	switch {
	case err == nil && answered && c.err == nil:
		c.free(x)
		return
	case err == nil:
		c.mu.Unlock()
	case answered || !write && !kept || isTimeout(err) || errors.Is(err, io.ErrShortWrite):
		c.mu.Unlock()
		x.fail(err)
	default:
		c.mu.Unlock()
		if write {
			c.wire.awaitHead(answerGrace)
		}
	}
}
