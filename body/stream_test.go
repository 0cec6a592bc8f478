package body_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/body"
)

// TestEvents writes an event only after the one before was read: a reader that waits for more than it needs hangs.
func TestEvents(t *testing.T) {
	const events = 20
	run := func(t *testing.T, coding string, send func(w io.Writer) func(event string)) {
		pr, pw := io.Pipe()
		hung := time.AfterFunc(20*time.Second, func() { pw.CloseWithError(errors.New("the event before is still waited for")) })
		defer hung.Stop()
		res := respond(coding, pr)
		res.Header.Set("Content-Type", "text/event-stream")
		if err := decoding(0).Response(get(t), res); err != nil {
			t.Fatal(err)
		}
		next := make(chan int)
		done := make(chan struct{})
		go func() {
			defer close(done)
			event := send(pw)
			for n := range next {
				event(eventText(n))
			}
			pw.Close()
		}()
		defer func() { pr.Close(); <-done }()
		defer close(next)
		buf := make([]byte, 4096)
		for n := range events {
			next <- n
			var got []byte
			for len(got) < len(eventText(n)) {
				m, err := res.Body.Read(buf)
				if got = append(got, buf[:m]...); err != nil {
					t.Fatalf("event %d: %q, %v", n, got, err)
				}
			}
			if string(got) != eventText(n) {
				t.Fatalf("event %d: %q", n, got)
			}
		}
	}
	for _, v := range variants {
		t.Run("B23_flush_"+v.name, func(t *testing.T) {
			run(t, v.header, func(w io.Writer) func(string) {
				enc := v.writer(w)
				return func(event string) { io.WriteString(enc, event); enc.Flush() }
			})
		})
		t.Run("B23_stacked_"+v.name, func(t *testing.T) {
			run(t, v.header+", gzip", func(w io.Writer) func(string) {
				outer := variantOf("gzip").writer(w)
				inner := v.writer(outer)
				return func(event string) { io.WriteString(inner, event); inner.Flush(); outer.Flush() }
			})
		})
	}
	for _, name := range []string{"gzip", "zstd"} {
		v := variantOf(name)
		t.Run("B06_member_"+name, func(t *testing.T) {
			run(t, v.header, func(w io.Writer) func(string) {
				return func(event string) { w.Write(v.encode([]byte(event))) }
			})
		})
	}
}

func eventText(n int) string { return fmt.Sprintf("id: %d\ndata: %x\n\n", n, n*n*n) }

// TestCloseDuringRead closes bodies whose Read waits, and bodies whose Read works.
func TestCloseDuringRead(t *testing.T) {
	plain := page(100_000)
	for _, v := range variants {
		data := v.encode(plain)
		t.Run(v.name, func(t *testing.T) {
			for i := range 20 {
				pr, pw := io.Pipe()
				res := respond(v.header, nil)
				res.Body = pr
				if err := decoding(0).Response(get(t), res); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				fed := make(chan struct{})
				wg.Go(func() { // half of the stream, and then silence until the reader closes
					pw.Write(data[:len(data)/2])
					close(fed)
					pw.Write(data[len(data)/2:][:1])
				})
				wg.Go(func() {
					var err error
					for buf := make([]byte, 1+i*100); err == nil; {
						_, err = res.Body.Read(buf)
					}
					if err != http.ErrBodyReadAfterClose {
						t.Errorf("Read ended with %v", err)
					}
				})
				if i%2 == 0 {
					<-fed
				}
				if err := res.Body.Close(); err != nil {
					t.Error(err)
				}
				wg.Wait()
				if err := res.Body.Close(); err != nil {
					t.Error(err)
				}
				if n, err := res.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose {
					t.Errorf("Read after Close: %d, %v", n, err)
				}
			}
		})
	}
}

// TestReuse decodes many bodies at once, good, broken and abandoned ones, with decoders that were used before.
func TestReuse(t *testing.T) {
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 30 {
				v := variants[(worker+i)%len(variants)]
				plain := page(1000 + 997*((worker+i)%13))
				data := v.encode(plain)
				switch i % 3 {
				case 1:
					data = data[:len(data)/2]
				case 2:
					b := guarded(t, decoding(0), v.header, bytes.NewReader(data))
					b.Read(make([]byte, 100))
					b.Close()
				}
				got, err := readAll(t, guarded(t, decoding(0), v.header, bytes.NewReader(data)), 1024)
				if (err == nil) != (i%3 != 1) || err == nil && !bytes.Equal(got, plain) {
					t.Errorf("%s: %d bytes, %v", v.name, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

// TestTrailers reads decoded bodies over connections: what follows the coded stream has been read at io.EOF.
func TestTrailers(t *testing.T) {
	plain := page(50_000)
	for _, v := range variants {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", v.header)
			w.Header().Set("Trailer", "X-Sum, Content-Digest")
			w.Write(v.encode(plain))
			http.NewResponseController(w).Flush()
			w.Header().Set("X-Sum", "good")
			w.Header().Set("Content-Digest", "of the coded bytes")
		}))
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		t.Run(v.name, func(t *testing.T) {
			req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil))
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if err := decoding(0).Response(req, res); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("read %d bytes, %v", len(got), err)
			}
			if want := (http.Header{"X-Sum": {"good"}}); !reflect.DeepEqual(res.Trailer, want) {
				t.Errorf("trailers %v, want %v", res.Trailer, want)
			}
		})
		client.CloseIdleConnections()
		server.Close()
	}
}

func TestCloseReachesBody(t *testing.T) {
	for name, g := range map[string]*body.Guard{"capped": {MaxBytes: 10}, "decoded": decoding(0)} {
		res := respond("gzip", nil)
		closed := &closer{err: errors.New("from beneath")}
		res.Body = closed
		if err := g.Response(get(t), res); err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != closed.err || closed.calls != 1 {
			t.Errorf("%s: %v after %d calls", name, err, closed.calls)
		}
	}
}

type closer struct {
	io.Reader
	calls int
	err   error
}

func (c *closer) Close() error { c.calls++; return c.err }
