package body_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddytunnel/caddytunnel/body"
)

// A flusher is an encoder of any coding.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// A variant is one way in which a coding is sent.
type variant struct {
	name   string
	header string // Content-Encoding
	coding body.Coding
	writer func(w io.Writer) flusher
}

var variants = []variant{
	{"gzip", "gzip", body.Gzip, func(w io.Writer) flusher { return gzip.NewWriter(w) }},
	{"x-gzip", "x-gzip", body.Gzip, func(w io.Writer) flusher { return gzip.NewWriter(w) }},
	{"deflate-zlib", "deflate", body.Deflate, func(w io.Writer) flusher { return zlib.NewWriter(w) }},
	{"deflate-raw", "deflate", body.Deflate, func(w io.Writer) flusher { return must(flate.NewWriter(w, 6)) }},
	{"deflate-stored", "deflate", body.Deflate, func(w io.Writer) flusher { return must(flate.NewWriter(w, 0)) }},
	{"br", "br", body.Brotli, func(w io.Writer) flusher { return brotli.NewWriterLevel(w, 4) }},
	{"zstd", "zstd", body.Zstd, func(w io.Writer) flusher { return must(zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))) }},
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// encode returns data in the variant's coding, as one member.
func (v variant) encode(data []byte) []byte {
	var out bytes.Buffer
	w := v.writer(&out)
	must(w.Write(data))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// encodeZeros returns n bytes of zeros in the variant's coding, made without holding them.
func (v variant) encodeZeros(n int64) []byte {
	var out bytes.Buffer
	w := v.writer(&out)
	must(io.CopyN(w, zeros{}, n))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func variantOf(name string) variant {
	for _, v := range variants {
		if v.name == name {
			return v
		}
	}
	panic("no variant " + name)
}

// page returns n bytes that compress about as well as a page does, the same ones each time.
func page(n int) []byte {
	words := []string{"<div class=", "span", "tunnel ", "proxy ", "http ", "</p>\n", "value=", "href=\"/", "caddy "}
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(byte('!' + rng.IntN(90)))
		b.WriteByte(byte('!' + rng.IntN(90)))
	}
	return b.Bytes()[:n]
}

func get(t testing.TB) *http.Request {
	t.Helper()
	return must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://origin.test/", nil))
}

// respond returns a response of unknown length with a body in a coding.
func respond(coding string, r io.Reader) *http.Response {
	res := &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(r)}
	if coding != "" {
		res.Header.Set("Content-Encoding", coding)
	}
	return res
}

// decoding returns a Guard that undoes everything.
func decoding(maxBytes int64) *body.Guard {
	return &body.Guard{MaxBytes: maxBytes, Decode: body.Codings()}
}

// guarded returns the body that g makes of r.
func guarded(t testing.TB, g *body.Guard, coding string, r io.Reader) io.ReadCloser {
	t.Helper()
	res := respond(coding, r)
	if err := g.Response(get(t), res); err != nil {
		t.Fatalf("Response: %v", err)
	}
	return res.Body
}

// readAll reads with a buffer of size bytes and fails on readers that break the contract of io.Reader.
func readAll(t testing.TB, r io.Reader, size int) ([]byte, error) {
	t.Helper()
	var all bytes.Buffer
	buf := make([]byte, size)
	for idle := 0; ; {
		n, err := r.Read(buf)
		if n < 0 || n > len(buf) {
			t.Fatalf("Read returned %d bytes of %d", n, len(buf))
		}
		all.Write(buf[:n])
		if err == io.EOF {
			return all.Bytes(), nil
		}
		if err != nil {
			return all.Bytes(), err
		}
		if idle++; n > 0 {
			idle = 0
		} else if idle > 100 {
			t.Fatal("Read makes no progress")
		}
	}
}

// wantSticky fails unless r goes on to return err without bytes.
func wantSticky(t testing.TB, r io.Reader, err error) {
	t.Helper()
	for range 3 {
		if n, again := r.Read(make([]byte, 8)); n != 0 || again != err {
			t.Fatalf("Read after an error: %d, %v; want 0, %v", n, again, err)
		}
	}
}
