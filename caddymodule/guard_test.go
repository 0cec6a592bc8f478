package caddymodule

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// guardProtocols are the protocols that differ in how a message is cut off.
var guardProtocols = []string{"h1", "h2"}

// TestDecode checks that every coding arrives undone, with the head edited, and that bytes pass untouched without decode.
func TestDecode(t *testing.T) {
	const n = 300_000
	for _, protocol := range guardProtocols {
		t.Run(protocol, func(t *testing.T) {
			b := newBed(t)
			s := startCaddy(t, b.site("h2", protocol, "decode", ""))
			for _, coding := range []string{"gzip", "deflate", "rawdeflate", "br", "zstd", "gzip,br"} {
				for _, framing := range []string{"length", "chunked"} {
					res, body, err := s.do("GET", fmt.Sprintf("/bytes/%d?coding=%s&framing=%s", n, coding, framing), nil, nil)
					if err != nil {
						t.Fatalf("%s: %v", coding, err)
					}
					sum := sha256.Sum256(body)
					if hex.EncodeToString(sum[:]) != testbed.PageSum(n) || res.Header.Get("Content-Encoding") != "" {
						t.Errorf("%s, %s: %d bytes, Content-Encoding %q", coding, framing, len(body), res.Header.Get("Content-Encoding"))
					}
				}
			}
			reqs := b.origin.Requests()
			if ae := reqs[len(reqs)-1].Header.Get("Accept-Encoding"); ae == "" {
				t.Error("the origin was offered no coding")
			}
		})
	}
	t.Run("untouched", func(t *testing.T) {
		b := newBed(t)
		s := startCaddy(t, b.site("http", "h1", "", ""))
		res, body, err := s.do("GET", "/bytes/100000?coding=gzip", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Header.Get("Content-Encoding") != "gzip" || !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
			t.Errorf("Content-Encoding %q, body begins % x", res.Header.Get("Content-Encoding"), body[:2])
		}
		reqs := b.origin.Requests()
		if ae, ok := reqs[len(reqs)-1].Header["Accept-Encoding"]; ok {
			t.Errorf("Accept-Encoding %q was added", ae)
		}
	})
}

// TestEventStream reads an event stream whose origin writes event n+1 only after the client has read event n.
func TestEventStream(t *testing.T) {
	const events = 5
	for _, protocol := range guardProtocols {
		for _, coding := range append([]string{""}, allowedCodings...) {
			t.Run(protocol+"/coding="+coding, func(t *testing.T) {
				b := newBed(t)
				words := ""
				if coding != "" {
					words = "decode"
				}
				s := startCaddy(t, b.site("http", protocol, words, ""))
				req, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("%s/events?n=%d&coding=%s", s.url, events, coding), nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := s.client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				id := res.Header.Get(testbed.StreamHeader)
				r := bufio.NewReader(res.Body)
				for n := 1; n <= events; n++ {
					for line := ""; line != "\n"; {
						if line, err = r.ReadString('\n'); err != nil {
							t.Fatalf("event %d: %v", n, err)
						}
					}
					if err := b.origin.Ack(id, n); err != nil && n < events {
						t.Fatalf("event %d: %v", n, err)
					}
				}
				if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
					t.Errorf("behind the last event: %q, %v", rest, err)
				}
			})
		}
	}
}
