package h1c

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowReturn is a conn whose writes have been read by the peer for a while when they return.
type slowReturn struct {
	net.Conn
	by time.Duration
}

func (c slowReturn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	<-time.After(c.by)
	return n, err
}

// The slot is free when a response is over whose request the peer has read, although its last write may not have returned.
func TestSlotIsFreeAtTheEnd(t *testing.T) {
	for name, reply := range map[string]string{"with_body": "200 OK\r\nContent-Length: 2\r\n\r\nok", "without": "204 No Content\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				c := own.between(t, nil, slowReturn{near, uploadGrace / 2}, far, func(p *peer) {
					for range 2 {
						io.Copy(io.Discard, p.request().Body)
						p.send("HTTP/1.1 " + reply)
					}
				})
				for range 2 {
					reserve(t, c)
					res, err := c.RoundTrip(post(t, struct{ io.Reader }{strings.NewReader("data")}, 4))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil || c.InFlight() != 0 {
						t.Errorf("%v; %d in flight", err, c.InFlight())
					}
					res.Body.Close()
				}
			})
		})
	}
}
