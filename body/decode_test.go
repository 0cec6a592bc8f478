package body_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/caddytunnel/caddytunnel/body"
)

// TestDecode reads every coding over every framing that a connection has, with reads of every size.
func TestDecode(t *testing.T) {
	plain := page(60_000)
	encoded := map[string][]byte{"identity": plain}
	for _, v := range variants {
		encoded[v.name] = v.encode(plain)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, framing, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		data := encoded[name]
		if name != "identity" {
			w.Header().Set("Content-Encoding", variantOf(name).header)
		}
		switch framing {
		case "length":
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		case "close":
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: %s\r\n\r\n", w.Header().Get("Content-Encoding"))
			rw.Write(data)
			rw.Flush()
			return
		}
		for len(data) > 0 {
			n := min(len(data), 5000)
			w.Write(data[:n])
			data = data[n:]
			if framing == "chunked" {
				http.NewResponseController(w).Flush()
			}
		}
	})
	h1 := httptest.NewServer(handler)
	defer h1.Close()
	h2 := httptest.NewUnstartedServer(handler)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	defer h2.Close()
	plainClient := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer plainClient.CloseIdleConnections()
	tlsClient := h2.Client()
	tlsClient.Transport.(*http.Transport).DisableCompression = true

	delete(encoded, "x-gzip")
	for name := range encoded {
		for _, framing := range []string{"length", "chunked", "close", "h2"} {
			for _, size := range []int{1, 511, 4096, 65536} {
				t.Run(fmt.Sprintf("B24_%s_%s_%d", name, framing, size), func(t *testing.T) {
					server, client := h1, plainClient
					if framing == "h2" {
						server, client = h2, tlsClient
					}
					req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/"+name+"/"+framing, nil))
					g := decoding(int64(len(plain)) + 100) // stored blocks are longer than what they hold
					g.Request(req.Header)
					res, err := client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					if err := g.Response(req, res); err != nil {
						t.Fatal(err)
					}
					if got, err := readAll(t, res.Body, size); err != nil || !bytes.Equal(got, plain) {
						t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(plain))
					}
					wantSticky(t, res.Body, io.EOF)
				})
			}
		}
	}
}

func TestReaders(t *testing.T) {
	plain := page(20_000)
	shapes := map[string]func(io.Reader) io.Reader{
		"one-byte":   iotest.OneByteReader,
		"half":       iotest.HalfReader,
		"data-error": iotest.DataErrReader,
		"hesitant":   func(r io.Reader) io.Reader { return &hesitant{r: r} },
	}
	for _, v := range variants {
		for shape, wrap := range shapes {
			t.Run(v.name+"_"+shape, func(t *testing.T) {
				b := guarded(t, decoding(0), v.header, wrap(bytes.NewReader(v.encode(plain))))
				if got, err := readAll(t, b, 777); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(plain))
				}
			})
		}
		t.Run(v.name+"_timeout", func(t *testing.T) {
			b := guarded(t, decoding(0), v.header, iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(v.encode(plain)))))
			if _, err := readAll(t, b, 777); err != iotest.ErrTimeout {
				t.Fatalf("error %v, want the source's own", err)
			}
			wantSticky(t, b, iotest.ErrTimeout)
		})
		t.Run(v.name+"_iotest", func(t *testing.T) {
			if err := iotest.TestReader(guarded(t, decoding(0), v.header, bytes.NewReader(v.encode(plain))), plain); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// hesitant returns nothing on every second Read.
type hesitant struct {
	r   io.Reader
	odd bool
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.odd = !h.odd; h.odd {
		return 0, nil
	}
	return h.r.Read(p)
}

func TestTruncated(t *testing.T) {
	plain := page(300)
	for _, v := range variants {
		t.Run("B09_"+v.name, func(t *testing.T) {
			data := v.encode(plain)
			for n := 1; n < len(data); n++ {
				b := guarded(t, decoding(0), v.header, bytes.NewReader(data[:n]))
				got, err := readAll(t, b, 64)
				var failed *body.DecodeError
				if !errors.As(err, &failed) || failed.Coding != v.coding || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%d of %d bytes: error %v", n, len(data), err)
				}
				if !bytes.HasPrefix(plain, got) {
					t.Fatalf("%d of %d bytes: other bytes than the original's", n, len(data))
				}
				wantSticky(t, b, err)
			}
		})
		t.Run("B26_"+v.name, func(t *testing.T) {
			data := v.encode(plain)
			for n := 0; n <= len(data); n++ { // the connection breaks, also where the stream happens to be complete
				b := guarded(t, decoding(0), v.header, io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(io.ErrUnexpectedEOF)))
				if _, err := readAll(t, b, 64); err != io.ErrUnexpectedEOF {
					t.Fatalf("%d of %d bytes, then an error: %v", n, len(data), err)
				}
			}
		})
	}
}

func TestTrailingBytes(t *testing.T) {
	plain := page(3000)
	for _, v := range variants {
		for _, junk := range []string{"\x00", "junk behind the end", strings.Repeat("\x00", 512)} {
			for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
				t.Run(fmt.Sprintf("%s_%d", v.name, len(junk)), func(t *testing.T) {
					data := append(v.encode(plain), junk...)
					b := guarded(t, decoding(0), v.header, wrap(bytes.NewReader(data)))
					got, err := readAll(t, b, 500)
					var failed *body.DecodeError
					if !errors.As(err, &failed) || !bytes.Equal(got, plain) {
						t.Fatalf("read %d bytes, error %v", len(got), err)
					}
					wantSticky(t, b, err)
				})
			}
		}
	}
}

func TestCorrupt(t *testing.T) {
	plain := page(5000)
	for _, v := range variants {
		t.Run("B30_header_"+v.name, func(t *testing.T) {
			b := guarded(t, decoding(0), v.header, strings.NewReader("\xff\xffthis is plain text, whatever the header says"))
			got, err := readAll(t, b, 500)
			var failed *body.DecodeError
			if !errors.As(err, &failed) || len(got) > 0 || failed.Code() != body.CodeDecodeFailed {
				t.Fatalf("read %q, error %v", got, err)
			}
			wantSticky(t, b, err)
		})
	}
	for _, name := range []string{"gzip", "deflate-zlib", "zstd"} { // the codings with a checksum
		v := variantOf(name)
		t.Run("B30_checksum_"+name, func(t *testing.T) {
			data := v.encode(plain)
			data[len(data)-1] ^= 1
			b := guarded(t, decoding(0), v.header, bytes.NewReader(data))
			_, err := readAll(t, b, 500)
			if _, ok := errors.AsType[*body.DecodeError](err); !ok {
				t.Fatalf("error %v", err)
			}
			wantSticky(t, b, err)
		})
		t.Run("B30_middle_"+name, func(t *testing.T) {
			data := v.encode(plain)
			for i := 10; i < len(data); i += 97 {
				broken := bytes.Clone(data)
				broken[i] ^= 0x55
				if got, err := readAll(t, guarded(t, decoding(0), v.header, bytes.NewReader(broken)), 500); err == nil {
					t.Fatalf("byte %d changed: %d bytes and no error", i, len(got))
				}
			}
		})
	}
}

func TestMembers(t *testing.T) {
	first, second := page(40_000), []byte("and the second")
	for _, name := range []string{"gzip", "x-gzip", "zstd"} {
		v := variantOf(name)
		t.Run("B06_"+name, func(t *testing.T) {
			var data []byte
			for _, part := range [][]byte{first, nil, second, nil} {
				data = append(data, v.encode(part)...)
			}
			for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader} {
				got, err := readAll(t, guarded(t, decoding(0), v.header, wrap(bytes.NewReader(data))), 900)
				if err != nil || !bytes.Equal(got, append(bytes.Clone(first), second...)) {
					t.Fatalf("read %d bytes, %v", len(got), err)
				}
			}
		})
	}
}

func TestStacked(t *testing.T) {
	plain := page(10_000)
	g, br, z := variantOf("gzip"), variantOf("br"), variantOf("zstd")
	tests := map[string]struct {
		lines []string
		data  []byte
	}{
		"two":            {[]string{"gzip, br"}, br.encode(g.encode(plain))},
		"lines":          {[]string{"zstd", "GZIP ,, br"}, br.encode(g.encode(z.encode(plain)))},
		"B15_identity":   {[]string{"identity, x-gzip , identity"}, g.encode(plain)},
		"five":           {[]string{"gzip,gzip,gzip,gzip,gzip"}, g.encode(g.encode(g.encode(g.encode(g.encode(plain)))))},
		"deflate_twofer": {[]string{"deflate, deflate"}, variantOf("deflate-zlib").encode(variantOf("deflate-raw").encode(plain))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			res := respond("", iotest.HalfReader(bytes.NewReader(test.data)))
			res.Header["Content-Encoding"] = test.lines
			if err := decoding(0).Response(get(t), res); err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(t, res.Body, 333); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("read %d bytes, %v", len(got), err)
			}
		})
	}
	t.Run("inner_fault", func(t *testing.T) {
		b := guarded(t, decoding(0), "gzip, br", bytes.NewReader(br.encode(g.encode(plain)[:200])))
		var failed *body.DecodeError
		if _, err := readAll(t, b, 333); !errors.As(err, &failed) || failed.Coding != body.Gzip {
			t.Fatalf("error %v, want gzip's", err)
		}
	})
	t.Run("outer_fault", func(t *testing.T) {
		b := guarded(t, decoding(0), "zstd, br", bytes.NewReader(br.encode(z.encode(plain))[:200]))
		var failed *body.DecodeError
		if _, err := readAll(t, b, 333); !errors.As(err, &failed) || failed.Coding != body.Brotli {
			t.Fatalf("error %v, want br's", err)
		}
	})
	t.Run("inner_empty", func(t *testing.T) {
		for _, v := range variants {
			b := guarded(t, decoding(0), v.header+", gzip", bytes.NewReader(g.encode(nil)))
			if _, err := readAll(t, b, 333); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%s: error %v", v.name, err)
			}
		}
	})
}

func TestZstdWindow(t *testing.T) {
	plain := page(100_000)
	for size, wantOK := range map[int]bool{1 << 20: true, 8 << 20: true, 16 << 20: false} {
		t.Run(strconv.Itoa(size>>20), func(t *testing.T) {
			var data bytes.Buffer
			w := must(zstd.NewWriter(&data, zstd.WithWindowSize(size), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)))
			must(w.Write(plain))
			must(0, w.Flush()) // an encoder that knows the whole asks for a smaller window
			must(0, w.Close())
			got, err := readAll(t, guarded(t, decoding(0), "zstd", &data), 65536)
			var failed *body.DecodeError
			switch {
			case wantOK && (err != nil || !bytes.Equal(got, plain)):
				t.Fatalf("read %d bytes, %v", len(got), err)
			case !wantOK && (!errors.As(err, &failed) || len(got) > 0):
				t.Fatalf("read %d bytes, error %v", len(got), err)
			}
		})
	}
}
