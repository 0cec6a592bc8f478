package h2c

import (
	"context"
	"io"
	"testing"

	"golang.org/x/net/http2"
)

// TestResetBeneath resets the stream that carries a connection. The engine must not take it for one of its own streams
// and read on for ever.
func TestResetBeneath(t *testing.T) {
	reset := make(chan struct{})
	outer := script(t, nil, func(p *peer) {
		stream := p.request().StreamID
		p.head(stream, false, ":status", "200")
		<-reset
		p.WriteRSTStream(stream, http2.ErrCodeCancel)
		p.drain()
	})
	inner, err := New(context.Background(), connect(t, outer), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	reserve(t, inner)
	close(reset)
	res, err := inner.RoundTrip(get(t))
	if err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		t.Fatal("a response")
	}
	if inner.Err() == nil {
		t.Error("the connection is still usable")
	}
}
