package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
)

// TestGoAway has an HTTP/2 origin end its connection by GOAWAY while requests are under way. No inbound request can give its
// body a second time.
func TestGoAway(t *testing.T) {
	const long = 70_000 // more than is remembered by default
	for _, protocol := range []string{"h2", "h2c"} {
		get, ok := asks(protocol, 0, "GET", ""), says(protocol, 0)
		post := asks(protocol, 0, "POST", "data")
		for name, refusal := range map[string]string{
			"H01_H02_body_was_sent":           get + ok + asks(protocol, 1, "POST", "data") + "<- GOAWAY 1 NO_ERROR\n-> rest",
			"H01_H02_body_was_not_asked_for":  get + ok + "-> HEADERS 3 :method=POST\n<- GOAWAY 1 NO_ERROR\n-> rest",
			"H01_H02_goaway_with_an_error":    get + ok + asks(protocol, 1, "POST", "data") + "<- GOAWAY 1 ENHANCE_YOUR_CALM \"too_many\"\n-> rest",
			"H01_H02_goaway_and_then_closing": get + ok + asks(protocol, 1, "POST", "data") + "<- GOAWAY 1 NO_ERROR\nclose",
		} {
			t.Run(name+"_"+protocol, func(t *testing.T) {
				o := startScripted(t, "http", protocol, "", refusal, post+ok+asks(protocol, 1, "GET", "")+says(protocol, 1)+"-> rest")
				o.answered("GET", "")
				o.answered("POST", "data")
				o.answered("GET", "")
				o.opened("http", 2)
			})
		}
		t.Run("H01_H02_first_request_"+protocol, func(t *testing.T) {
			o := startScripted(t, "http", protocol, "", post+"<- GOAWAY 0 NO_ERROR\n-> rest", post+ok+"-> rest")
			o.answered("POST", "data")
			o.opened("http", 2)
		})
		t.Run("H01_H02_body_of_unknown_length_"+protocol, func(t *testing.T) {
			o := startScripted(t, "http", protocol, "", "-> HEADERS 1\n-> DATA 1 \"begun,\"\n<- GOAWAY 0 NO_ERROR\nclose",
				"-> HEADERS 1\n-> DATA 1 \"begun, done\" END_STREAM\n"+ok+"-> rest")
			body, upload := io.Pipe()
			go func() {
				io.WriteString(upload, "begun,")
				awaitTrue(t, "the first connection to close", func() bool { return o.peer.Accepted() == 1 && o.peer.Open() == 0 })
				io.WriteString(upload, " done")
				upload.Close()
			}()
			res, got, err := o.do("POST", "/", body, nil)
			if err != nil || res.StatusCode != http.StatusOK || string(got) != "ok" {
				t.Errorf("%v %q %v", res, got, err)
			}
		})
		t.Run("H01_body_is_too_long_"+protocol, func(t *testing.T) {
			data := strings.Repeat("x", long)
			refusal := fmt.Sprintf("-> HEADERS 1 content-length=%d\n-> DATA 1 %d*\"x\" END_STREAM\n<- GOAWAY 0 NO_ERROR\n-> rest", long, long)
			accepted := fmt.Sprintf("-> HEADERS 1 content-length=%d\n-> DATA 1 %d*\"x\" END_STREAM\n", long, long) + ok + "-> rest"
			o := startScripted(t, "http", protocol, "", refusal, get+ok+"-> rest")
			o.fails("POST", data, "origin_not_processed")
			o.answered("GET", "")
			o.opened("http", 2)

			o = startScripted(t, "http", protocol, "replay_bytes 70000", refusal, accepted)
			o.answered("POST", data)
			o.opened("http", 2)
		})
		t.Run("H03_stream_is_included_"+protocol, func(t *testing.T) {
			o := startScripted(t, "http", protocol, "",
				"-> HEADERS 1\n<- GOAWAY 1 NO_ERROR\n<- HEADERS 1 :status=103\n-> DATA 1 \"data\" END_STREAM\n"+ok+"-> eof",
				get+ok+asks(protocol, 1, "GET", "")+says(protocol, 1)+"-> rest")
			body, upload := io.Pipe()
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { // behind GOAWAY
					go func() {
						o.answered("GET", "")
						o.answered("GET", "")
						io.WriteString(upload, "data")
						upload.Close()
					}()
					return nil
				},
			})
			req, err := http.NewRequestWithContext(ctx, "POST", o.url, body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := o.client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || string(got) != "ok" {
				t.Errorf("%d %q %v", res.StatusCode, got, err)
			}
			o.opened("http", 2)
			awaitTrue(t, "the first connection to close", func() bool { return o.peer.Open() == 1 })
			if f := o.failures(); len(f) > 0 {
				t.Errorf("logged %v", f)
			}
		})
	}
}
