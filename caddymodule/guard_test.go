package caddymodule

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// guardProtocols are the protocols that differ in how a message is cut off.
var guardProtocols = []string{"h1", "h2"}

// TestCapDeclared checks that a declared length over the cap is a clean 502, and that exactly the cap passes.
func TestCapDeclared(t *testing.T) {
	for _, protocol := range guardProtocols {
		t.Run(protocol, func(t *testing.T) {
			b := newBed(t)
			s := startCaddy(t, b.site("http", protocol, "max_body_bytes 64KiB", "lb_retries 3"))
			if got := s.get("/bytes/65536?framing=length", 200); len(got) != 64<<10 {
				t.Errorf("exactly the cap: %d bytes", len(got))
			}
			before := len(b.origin.Requests())
			res, body, err := s.do("GET", "/bytes/65537?framing=length", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 502 || len(body) != 0 || !strings.Contains(res.Header.Get("Proxy-Status"), "http_response_body_size") {
				t.Errorf("status %d, %d bytes, Proxy-Status %q", res.StatusCode, len(body), res.Header.Get("Proxy-Status"))
			}
			if n := len(b.origin.Requests()) - before; n != 1 {
				t.Errorf("the origin was asked %d times: an answer over the cap is not to be retried", n)
			}
			if e := s.awaitLogged("response body failed"); e["code"] != "body_too_large" || e["level"] != "warn" {
				t.Errorf("logged %v", e)
			}
			if res, _, err := s.do("HEAD", "/bytes/65537?framing=length", nil, nil); err != nil || res.StatusCode != 200 {
				t.Errorf("HEAD is not capped: %v %v", res, err)
			}
		})
	}
}

// TestCapMidStream checks with curl that a body that turns out to be over the cap never looks complete.
func TestCapMidStream(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	for _, protocol := range guardProtocols {
		for _, client := range []string{"--http1.1", "--http2-prior-knowledge"} {
			t.Run(protocol+"/"+strings.TrimLeft(client, "-"), func(t *testing.T) {
				b := newBed(t)
				s := startCaddy(t, b.site("socks5", protocol, "max_body_bytes 1MiB", ""))
				out, err := exec.CommandContext(t.Context(), "curl", "-sS", client, "-o", "/dev/null", "-w", "%{http_code} %{size_download}",
					s.url+"/bytes/8MiB?framing=chunked").CombinedOutput()
				if err == nil {
					t.Fatalf("curl is content with %s", out)
				}
				exit, ok := err.(*exec.ExitError)
				if !ok {
					t.Fatal(err)
				}
				// 18: a partial file, 56: receive failure, 92: the stream was reset.
				if code := exit.ExitCode(); code != 18 && code != 56 && code != 92 {
					t.Errorf("curl exits with %d: %s", code, out)
				}
				if e := s.awaitLogged("response body failed"); e["code"] != "body_too_large" {
					t.Errorf("logged %v", e)
				}
			})
		}
	}
}

// TestBombs stops a bomb of every coding at the cap, with bounded memory.
func TestBombs(t *testing.T) {
	for _, protocol := range guardProtocols {
		for _, coding := range allowedCodings {
			t.Run(protocol+"/"+coding, func(t *testing.T) {
				b := newBed(t)
				s := startCaddy(t, b.site("http", protocol, "decode\nmax_body_bytes 8MiB", ""))
				peak := watchHeap(t)
				res, err := s.client().Get(s.url + "/bomb/" + coding + "?n=256MiB")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				n, err := io.Copy(io.Discard, res.Body)
				if err == nil || n > 8<<20 {
					t.Errorf("%d bytes arrived, error %v", n, err)
				}
				if res.Header.Get("Content-Encoding") != "" {
					t.Errorf("Content-Encoding %q", res.Header.Get("Content-Encoding"))
				}
				if grown := peak(); grown > 64<<20 {
					t.Errorf("the heap grew by %d MiB", grown>>20)
				}
			})
		}
	}
}

// watchHeap samples the heap until the returned function is called, which gives by how much it grew at most.
func watchHeap(t *testing.T) (grown func() uint64) {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base := m.HeapAlloc
	var peak atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return max(peak.Load(), base) - base
	}
}

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

// TestBrokenBodies checks that no body that ended too early, or is not what it claims to be, looks complete.
func TestBrokenBodies(t *testing.T) {
	for _, protocol := range guardProtocols {
		b := newBed(t)
		s := startCaddy(t, b.site("http", protocol, "decode", ""))
		paths := []string{"/broken/short", "/broken/chunk", "/broken/reset"}
		for _, coding := range allowedCodings {
			paths = append(paths, "/broken/corrupt/"+coding, "/broken/cut/"+coding, "/broken/plain/"+coding)
		}
		for _, path := range paths {
			t.Run(protocol+strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
				res, body, err := s.do("GET", path, nil, nil)
				if err == nil && res.StatusCode == 200 {
					t.Errorf("a complete 200 with %d bytes", len(body))
				}
			})
		}
	}
}
