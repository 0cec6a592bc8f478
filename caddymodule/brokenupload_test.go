package caddymodule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestBrokenUpload has clients go away in the middle of an upload: the origin is told by a reset of that stream, and what else is on
// the connection goes on.
func TestBrokenUpload(t *testing.T) {
	const story = `
		-> HEADERS 1 :method=GET
		<- HEADERS 1 :status=200
		-> HEADERS 3 :method=POST
		-> DATA 3 "half"
		-> RST_STREAM 3 CANCEL
		<- DATA 1 "whole" END_STREAM
		-> HEADERS 5 :method=POST
		-> DATA 5 "data" END_STREAM
		<- HEADERS 5 :status=200
		<- DATA 5 "ok" END_STREAM
		-> rest`
	for _, protocol := range []string{"h2", "h2c"} {
		for name, upload := range map[string]func(o *scriptedOrigin, half func()){
			"H09_length": func(o *scriptedOrigin, half func()) { o.breakOff("Content-Length: 100\r\n\r\nhalf", half) },
			"H09_chunked": func(o *scriptedOrigin, half func()) {
				o.breakOff("Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", half)
			},
			"H09_h2c": (*scriptedOrigin).breakOffStream,
		} {
			t.Run(name+"_"+protocol, func(t *testing.T) {
				o := listenScripted(t, protocol, story)
				// Caddy v2.11.9 counts a body's bytes for the access log without a lock, and the log does not wait for the last read.
				o.server = startCaddy(t, "log_skip\n"+o.site("http", protocol, ""))
				res, err := o.client().Get(o.url)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				upload(o, func() {
					awaitTrue(t, "half of the upload", func() bool { return bytes.Contains(o.peer.Heard(0), []byte("half")) })
				})
				if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || string(got) != "whole" {
					t.Errorf("the other stream: %s, %q, %v", res.Status, got, err)
				}
				o.answered("POST", "data")
				o.opened("http", 1)
			})
		}
	}
}

// breakOff begins an upload over HTTP/1.1, and closes the connection behind half of it.
func (o *scriptedOrigin) breakOff(rest string, half func()) {
	o.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(o.url, "http://"))
	if err != nil {
		o.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s", rest)
	half()
}

// breakOffStream is breakOff over HTTP/2, with a reset.
func (o *scriptedOrigin) breakOffStream(half func()) {
	o.t.Helper()
	client := h2cClient()
	defer client.CloseIdleConnections()
	body, w := io.Pipe()
	go func() {
		io.WriteString(w, "half")
		half()
		w.CloseWithError(errors.New("gone"))
	}()
	if res, err := client.Post(o.url, "", body); err == nil {
		res.Body.Close()
		o.t.Errorf("answered %s", res.Status)
	}
}
