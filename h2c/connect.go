package h2c

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
)

// Connect opens a CONNECT stream to authority ("host:port", RFC 9113 section 8.5) in a slot taken by
// Reserve. header may be nil and is not changed. ctx bounds the wait for the answer, not the stream's life.
//
// A 2xx gives a net.Conn, which the caller closes. It has deadlines and CloseWrite (END_STREAM); Close
// sends what was written and END_STREAM, then resets the stream as soon as the peer goes on sending, at the latest after
// three seconds. Its addresses are those of the connection it rides on. Another status gives no conn, the
// response (its body closed) and no error. Errors are *Error.
func (c *Conn) Connect(ctx context.Context, authority string, header http.Header) (net.Conn, *http.Response, error) {
	s := newStream(c.wire)
	stop := context.AfterFunc(ctx, s.end)
	x := c.newExchange(httptrace.WithClientTrace(s.life, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { s.written() },
	}))
	req := (&http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Host: authority},
		Host:   authority,
		Header: outgoing(header),
		Body:   s.toSend,
	}).WithContext(x.ctx)
	res, err := c.cc.RoundTrip(req)
	x.settle()
	if !stop() && err == nil {
		res.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		s.end()
		s.discard()
		return nil, nil, x.failed(ctx, "connect", err)
	}
	res.Request = nil
	res.TLS = c.tls
	if res.StatusCode < 200 || res.StatusCode > 299 {
		s.end()
		res.Body.Close()
		s.discard()
		res.Body = http.NoBody
		return nil, res, nil
	}
	go s.receive(res.Body)
	res.Body = http.NoBody
	return s, res, nil
}
