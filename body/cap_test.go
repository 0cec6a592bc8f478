package body_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddytunnel/caddytunnel/body"
)

// overCap reads b to its error, which must be the cap's, and returns what came before it.
func overCap(t *testing.T, b io.Reader, size int) ([]byte, *body.TooLargeError) {
	t.Helper()
	got, err := readAll(t, b, size)
	var over *body.TooLargeError
	if !errors.As(err, &over) {
		t.Fatalf("read %d bytes, error %v; want the cap's", len(got), err)
	}
	wantSticky(t, b, err)
	return got, over
}

func TestCapPassThrough(t *testing.T) {
	const limit = 10_000
	plain := page(limit + 5000)
	for _, size := range []int{1, 511, limit - 1, limit, limit + 1, 65536} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":      func(r io.Reader) io.Reader { return r },
			"one-byte":   iotest.OneByteReader,
			"data-error": iotest.DataErrReader,
		} {
			t.Run("B18_"+name, func(t *testing.T) {
				calls := 0
				g := &body.Guard{MaxBytes: limit, OnError: func(error) { calls++ }}
				for _, n := range []int{0, 1, limit - 1, limit} {
					got, err := readAll(t, guarded(t, g, "", wrap(bytes.NewReader(plain[:n]))), size)
					if err != nil || !bytes.Equal(got, plain[:n]) || calls != 0 {
						t.Fatalf("%d bytes: read %d, %v, %d calls of OnError", n, len(got), err, calls)
					}
				}
				for i, n := range []int{limit + 1, limit + 5000} {
					got, over := overCap(t, guarded(t, g, "", wrap(bytes.NewReader(plain[:n]))), size)
					if !bytes.Equal(got, plain[:limit]) || *over != (body.TooLargeError{Limit: limit, Wire: true}) || calls != i+1 {
						t.Fatalf("%d bytes: read %d, %+v, %d calls of OnError", n, len(got), over, calls)
					}
				}
			})
		}
	}
	t.Run("B15_unknown_coding", func(t *testing.T) {
		got, over := overCap(t, guarded(t, decoding(limit), "gzip, exotic", bytes.NewReader(plain)), 4096)
		if len(got) != limit || !over.Wire {
			t.Fatalf("read %d bytes, %+v", len(got), over)
		}
	})
}

func TestCapDecoded(t *testing.T) {
	const limit = 10_000
	plain := page(limit + 5000)
	for _, v := range variants {
		if v.name == "deflate-stored" {
			continue // its encoded bytes reach the cap first
		}
		for _, size := range []int{1, 511, limit, 65536} {
			t.Run("B18_"+v.name, func(t *testing.T) {
				calls := 0
				g := decoding(limit)
				g.OnError = func(error) { calls++ }
				got, err := readAll(t, guarded(t, g, v.header, bytes.NewReader(v.encode(plain[:limit]))), size)
				if err != nil || !bytes.Equal(got, plain[:limit]) || calls != 0 {
					t.Fatalf("exactly the cap: read %d bytes, %v, %d calls of OnError", len(got), err, calls)
				}
				for i, n := range []int{limit + 1, limit + 5000} {
					got, over := overCap(t, guarded(t, g, v.header, bytes.NewReader(v.encode(plain[:n]))), size)
					if !bytes.Equal(got, plain[:limit]) || *over != (body.TooLargeError{Limit: limit}) || calls != i+1 {
						t.Fatalf("%d bytes: read %d, %+v, %d calls of OnError", n, len(got), over, calls)
					}
				}
			})
		}
	}
	for _, name := range []string{"gzip", "zstd"} {
		v := variantOf(name)
		t.Run("B07_"+name, func(t *testing.T) {
			data := append(v.encode(plain[:100]), v.encode(plain)...)
			if got, _ := overCap(t, guarded(t, decoding(limit), v.header, bytes.NewReader(data)), 4096); len(got) != limit {
				t.Fatalf("read %d bytes, want the cap over all members", len(got))
			}
		})
	}
}

// TestCapEncoded feeds streams that produce nothing and never end.
func TestCapEncoded(t *testing.T) {
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 4, 0, 0}, make([]byte, 1024)...)
	tests := map[string]struct {
		coding string
		data   []byte
	}{
		"gzip_members":     {"gzip", variantOf("gzip").encode(nil)},
		"zstd_frames":      {"zstd", variantOf("zstd").encode(nil)},
		"zstd_skippable":   {"zstd", skippable},
		"deflate_no_bytes": {"deflate", []byte{0x00, 0x00, 0x00, 0xff, 0xff}},
		"br_metadata":      {"br", []byte{0x06}}, // behind the window: empty metadata blocks
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			const limit = 100_000
			calls := 0
			g := decoding(limit)
			g.OnError = func(error) { calls++ }
			var source io.Reader = &endless{data: test.data}
			if test.coding == "br" {
				source = io.MultiReader(strings.NewReader("\x0c"), source)
			}
			got, over := overCap(t, guarded(t, g, test.coding, source), 4096)
			if len(got) != 0 || *over != (body.TooLargeError{Limit: limit, Wire: true}) || calls != 1 {
				t.Fatalf("read %d bytes, %+v, %d calls of OnError", len(got), over, calls)
			}
		})
	}
	t.Run("between_stacked", func(t *testing.T) {
		inner := bytes.Repeat(variantOf("gzip").encode(nil), 50_000) // a megabyte that decodes to nothing
		outer := variantOf("zstd").encode(inner)
		_, over := overCap(t, guarded(t, decoding(100_000), "gzip, zstd", bytes.NewReader(outer)), 4096)
		if len(outer) > 100_000 || !over.Wire {
			t.Fatalf("%d bytes as received, %+v", len(outer), over)
		}
	})
}

// endless repeats data for ever.
type endless struct {
	data []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.data[e.at:])
	e.at = (e.at + n) % len(e.data)
	return n, nil
}

func TestBomb(t *testing.T) {
	const size, limit, step = 32 << 20, 1 << 20, 24 << 20
	bombs := map[string][]byte{"br_one-command": brotliBomb()}
	for _, v := range variants {
		if v.name != "deflate-stored" && v.name != "x-gzip" {
			bombs[v.header+"_"+v.name] = v.encodeZeros(size)
		}
	}
	for name, data := range bombs {
		t.Run("B02_"+name, func(t *testing.T) {
			coding, _, _ := strings.Cut(name, "_")
			b := guarded(t, decoding(limit), coding, bytes.NewReader(data))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, b, make([]byte, 32<<10))
			runtime.ReadMemStats(&after)
			var over *body.TooLargeError
			if !errors.As(err, &over) || n != limit {
				t.Fatalf("read %d bytes, %v", n, err)
			}
			// Everything that was allocated, freed or not: bounds the peak without catching the collector at work.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > step {
				t.Fatalf("%d MiB allocated for %d bytes of body", grown>>20, len(data))
			}
		})
	}
	t.Run("uncapped", func(t *testing.T) {
		for name, data := range bombs {
			coding, _, _ := strings.Cut(name, "_")
			b := guarded(t, decoding(-1), coding, bytes.NewReader(data))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, b, make([]byte, 32<<10))
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; err != nil || n < 1<<24 || grown > step {
				t.Fatalf("%s: read %d bytes, %v, %d MiB allocated", name, n, err, grown>>20)
			}
		}
	})
}

// brotliBomb returns a stream of a few bytes, one command of which makes 16 MiB (RFC 7932 sections 9 and 10).
func brotliBomb() []byte {
	var out []byte
	var at uint
	bits := func(n uint, value uint32) {
		for i := range n {
			if at%8 == 0 {
				out = append(out, 0)
			}
			out[at/8] |= byte(value>>i&1) << (at % 8)
			at++
		}
	}
	simple := func(width uint, symbol uint32) { bits(2, 1); bits(2, 0); bits(width, symbol) } // a code of one symbol
	const size = 1 << 24
	bits(1, 0)            // window of 64 KiB
	bits(1, 1)            // last meta-block
	bits(1, 0)            // not empty
	bits(2, 2)            // six nibbles of length
	bits(24, size-1)      //
	bits(3, 0)            // one block type each
	bits(6, 0)            // distances: no postfix, none direct
	bits(2, 0)            // context mode
	bits(2, 0)            // one literal tree, one distance tree
	simple(8, 'x')        // literals
	simple(10, 384+8*1+7) // insert one byte, copy 2118 and more
	simple(6, 16)         // distance 1 or 2
	bits(24, size-1-2118) // how many more
	bits(1, 0)            // distance 1
	return out
}

func TestDeclaredLength(t *testing.T) {
	const limit = 1000
	tests := map[string]struct {
		guard  *body.Guard
		coding string
		method string
		status int
		length int64
		kind   string
		want   bool
	}{
		"B17_over":          {&body.Guard{MaxBytes: limit}, "", "GET", 200, limit + 1, "", true},
		"B17_exactly":       {&body.Guard{MaxBytes: limit}, "", "GET", 200, limit, "", false},
		"B17_error_page":    {&body.Guard{MaxBytes: limit}, "", "POST", 500, limit + 1, "", true},
		"B17_range":         {decoding(limit), "gzip", "GET", 206, limit + 1, "", true},
		"B17_compressed":    {decoding(limit), "gzip", "GET", 200, limit + 1, "", true},
		"B17_default":       {decoding(0), "gzip", "GET", 200, body.DefaultMaxBytes + 1, "", true},
		"B17_head":          {decoding(limit), "gzip", "HEAD", 200, limit + 1, "", false},
		"B17_304":           {decoding(limit), "gzip", "GET", 304, limit + 1, "", false},
		"B17_204":           {decoding(limit), "gzip", "GET", 204, limit + 1, "", false},
		"none_pass-through": {decoding(0), "", "GET", 200, 1 << 40, "", false},
		"none_unknown":      {decoding(0), "exotic", "GET", 200, 1 << 40, "", false},
		"none_events":       {decoding(0), "gzip", "GET", 200, 1 << 40, "Text/Event-Stream; charset=utf-8", false},
		"none_grpc":         {decoding(0), "gzip", "POST", 200, 1 << 40, "application/grpc+proto", false},
		"written_events":    {decoding(limit), "gzip", "GET", 200, limit + 1, "text/event-stream", true},
		"lifted":            {decoding(-1), "gzip", "GET", 200, 1 << 40, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.guard.OnError = func(error) { t.Error("OnError called") }
			var source io.Reader = bytes.NewReader(variantOf("gzip").encode(page(100)))
			if test.want {
				source = iotest.ErrReader(errors.New("read before the answer was decided"))
			}
			res := respond(test.coding, source)
			res.StatusCode, res.ContentLength = test.status, test.length
			res.Header.Set("Content-Type", test.kind)
			before, original := res.Header.Clone(), res.Body
			req := get(t)
			req.Method = test.method
			err := test.guard.Response(req, res)
			var over *body.TooLargeError
			if errors.As(err, &over) != test.want || !test.want && err != nil {
				t.Fatalf("error %v", err)
			}
			if test.want {
				if over.Declared != test.length || !over.Wire || !strings.Contains(err.Error(), "[body_too_large]") {
					t.Errorf("error %+v: %v", over, err)
				}
				if res.Body != original || len(res.Header) != len(before) {
					t.Error("a refused response was changed")
				}
			}
		})
	}
}

func TestUncappedBodyIsUntouched(t *testing.T) {
	for name, g := range map[string]*body.Guard{"zero": {}, "lifted": {MaxBytes: -1}, "decode": decoding(0)} {
		res := respond("", strings.NewReader("x"))
		original := res.Body
		if err := g.Response(get(t), res); err != nil || res.Body != original {
			t.Errorf("%s: body replaced, %v", name, err)
		}
	}
	t.Run("B20_upgrade", func(t *testing.T) {
		res := respond("gzip", nil)
		res.StatusCode = http.StatusSwitchingProtocols
		res.Body = &struct{ io.ReadWriteCloser }{}
		original := res.Body
		if err := decoding(1).Response(get(t), res); err != nil || res.Body != original {
			t.Errorf("body replaced, %v", err)
		}
	})
}
