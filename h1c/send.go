package h1c

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"time"
)

// headBuffer is the size of the buffer a request's head is made in. A longer head gets memory of its own.
const headBuffer = 4 << 10

// send writes the request's head, and its body as far as that is in memory; else it leaves the body to a goroutine. That a
// write failed is no error yet, because the peer may have answered before.
func (x *exchange) send() error {
	lent := takeBuffer(headBuffer)
	defer giveBuffer(lent)
	h := &x.head
	if h.length == 0 {
		x.uploaded(x.write(h.append((*lent)[:0], x.trace)))
		closeBody(x.req)
		return nil
	}
	up := &upload{x: x, body: x.req.Body, left: h.length, ended: make(chan struct{})}
	x.c.setUpload(x, up)
	if h.mayBeEmpty() {
		return x.sniff(up, (*lent)[:0])
	}
	head := h.append((*lent)[:0], x.trace)
	if h.expects {
		up.proceed = make(chan bool, 1)
	} else if n, ok := atHand(up.body); ok && len(head) <= x.c.cfg.writeBuffer()/2 {
		up.head = head
		if n <= x.c.cfg.writeBuffer()/2-chunkRoom {
			up.run()
			return nil
		}
		up.head = append([]byte(nil), head...)
		go up.run()
		return nil
	}
	if err := x.write(head); err != nil {
		close(up.ended)
		up.close()
		x.uploaded(err)
		return nil
	}
	if h.expects && x.trace != nil && x.trace.Wait100Continue != nil {
		x.trace.Wait100Continue()
	}
	go up.run()
	return nil
}

// write writes the head alone.
func (x *exchange) write(head []byte) error {
	if _, err := x.c.wire.Write(head); err != nil {
		return &writeError{err}
	}
	x.wroteHead()
	return nil
}

func (x *exchange) wroteHead() {
	if x.trace != nil && x.trace.WroteHeaders != nil {
		x.trace.WroteHeaders()
	}
}

// sniff finds out whether there is a body at all, in a short time, before it writes the head.
func (x *exchange) sniff(up *upload, buf []byte) error {
	up.sniffed, up.proceed = make(chan struct{}), make(chan bool, 1)
	go up.run()
	timer := time.NewTimer(sniffTime)
	defer timer.Stop()
	select {
	case <-up.sniffed:
	case <-timer.C:
	case <-x.req.Context().Done():
		return x.req.Context().Err()
	}
	body := true
	select {
	case <-up.sniffed:
		body = up.first > 0 || up.firstErr != io.EOF
	default:
	}
	if !body {
		x.head.length, x.head.trailer = 0, nil
	}
	if err := x.write(x.head.append(buf, x.trace)); err != nil {
		up.let(false)
		x.uploaded(err)
		return nil
	}
	up.let(body)
	return nil
}

var (
	noCloser   = reflect.TypeOf(io.NopCloser(nil))
	noCloserTo = reflect.TypeOf(io.NopCloser((*bytes.Reader)(nil)))
)

// atHand is the number of bytes of a body that never blocks, as it is in memory.
func atHand(body io.Reader) (n int, ok bool) {
	if t := reflect.TypeOf(body); t == noCloser || t == noCloserTo {
		body, _ = reflect.TypeAssert[io.Reader](reflect.ValueOf(body).Field(0))
	}
	switch body := body.(type) {
	case *bytes.Reader:
		return body.Len(), true
	case *bytes.Buffer:
		return body.Len(), true
	case *strings.Reader:
		return body.Len(), true
	}
	return 0, false
}
