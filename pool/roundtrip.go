package pool

import (
	"errors"
	"net/http"
	"time"
)

// Got tells how a request was carried.
type Got struct {
	Reused  bool          // on a connection that had carried a request before
	Retried bool          // it was sent more than once
	Waited  time.Duration // for a connection, dialing excluded
}

// RoundTrip sends req on a connection of id, or on one that dial makes.
//
// Neither req nor its header is changed. Its body is not read before there is a connection, and is always closed.
// A request is sent once more, on a newer connection, if the first one failed and the origin provably did not
// process it, or, for the safe methods, if a reused connection failed without a byte of an answer; in both cases
// only if the body is absent, unread, or remembered as a whole. A stream that was refused because the peer takes
// no more is one such failure for itself, and so is one that is required over HTTP/1.1: they do not count with the others.
// got is filled in any case, nil is ok.
// Errors are *Error.
//
// The caller closes the response's body; a body that was read to its end or closed gives its connection back.
// The body of a 101 is an io.ReadWriteCloser with CloseWrite if the Conn's is; its connection is closed with it.
func (p *Pool) RoundTrip(req *http.Request, key Identity, dial DialFunc, got *Got) (*http.Response, error) {
	if got == nil {
		got = new(Got)
	}
	*got = Got{}
	body := newReplay(req, p.opt.replayBytes())
	p.mu.Lock()
	id := p.enter(key)
	p.unlock()

	res, e, err := p.send(req, id, dial, body, got)
	if err != nil {
		err.BodyRead = body.finish()
		p.mu.Lock()
		p.leave(id)
		p.unlock()
		return nil, err
	}
	p.wrap(res, e)
	return res, nil
}

// send is RoundTrip for a counted user of id. With a response it gives the connection that is in use by it.
func (p *Pool) send(req *http.Request, id *identity, dial DialFunc, body *replay, got *Got) (*http.Response, *entry, *Error) {
	ctx := req.Context()
	var not shun
	var failedBefore, refusedBefore, requiredBefore bool
	for {
		e, reused, err := p.get(ctx, id, not, dial, got)
		if err != nil {
			return nil, nil, err
		}
		got.Reused = reused
		res, cause := e.conn.RoundTrip(p.outgoing(req, body))
		if cause == nil {
			body.settle()
			p.answered(e)
			res.Request = req
			return res, e, nil
		}
		required := http11Required(cause)
		before := &failedBefore
		switch {
		case required:
			before = &requiredBefore
		case refused(cause):
			before = &refusedBefore
		}
		retry := !*before && ctx.Err() == nil && (id.id.HTTP11 || !required) &&
			again(req.Method, reused || required, cause) && body.rewind()
		*before = true
		p.mu.Lock()
		switch {
		case required && id.id.HTTP11:
			p.requireHTTP11(id) // what is left is of HTTP/1.1
		case refused(cause):
			not.also = e // the others may have room
		default:
			not.upTo = p.seq // the others may be as dead
		}
		id.cautious = id.cautious || refusedBefore
		p.done(e)
		p.unlock()
		if !retry {
			return nil, nil, &Error{Stage: StageRoundTrip, Err: ended(ctx, cause)}
		}
		got.Retried = true
	}
}

// answered notes that e carried a request, which may free slots that were held back.
func (p *Pool) answered(e *entry) {
	if e.proven.Swap(true) || p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	p.serve(e.id.host)
	p.unlock()
}

// outgoing is the request for one attempt.
func (p *Pool) outgoing(req *http.Request, body *replay) *http.Request {
	closing := p.opt.DisableKeepAlives && !req.Close && req.Header.Get("Upgrade") == ""
	if body == nil && !closing {
		return req
	}
	out := new(http.Request)
	*out = *req
	out.Close = req.Close || closing
	if body != nil {
		out.Body = body.attempt()
		out.GetBody = nil
	}
	return out
}

// again says whether a request that failed with err may be sent once more, its body aside. hopeful says that the
// connection is to blame, or may be, so that another one may do better.
func again(method string, hopeful bool, err error) bool {
	var invalid interface{ Invalid() bool }
	if errors.As(err, &invalid) && invalid.Invalid() {
		return false
	}
	var unprocessed interface{ Unprocessed() bool }
	if errors.As(err, &unprocessed) && unprocessed.Unprocessed() {
		return true
	}
	var unanswered interface{ Unanswered() bool }
	return hopeful && safe(method) && errors.As(err, &unanswered) && unanswered.Unanswered()
}

// refused says that the connection has more requests than its peer takes.
func refused(err error) bool {
	var r interface{ Refused() bool }
	return errors.As(err, &r) && r.Refused()
}

// http11Required says that the peer wants HTTP/1.1.
func http11Required(err error) bool {
	var r interface{ HTTP11Required() bool }
	return errors.As(err, &r) && r.HTTP11Required()
}

// safe is RFC 9110 section 9.2.1.
func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
