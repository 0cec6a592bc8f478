package body_test

import (
	"bytes"
	stdflate "compress/flate"
	stdgzip "compress/gzip"
	stdzlib "compress/zlib"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddytunnel/caddytunnel/body"
)

// FuzzDecode reads arbitrary bytes as each coding: never more than the cap, sticky errors, the same bytes whatever the
// sizes of reads, and what the standard library's decoder makes of them.
func FuzzDecode(f *testing.F) {
	for i, v := range variants {
		data := v.encode(page(600))
		f.Add(uint8(i), uint16(100), uint16(700), data)
		f.Add(uint8(i), uint16(1), uint16(599), data)
		f.Add(uint8(i), uint16(50), uint16(600), data[:len(data)-1])
		f.Add(uint8(i), uint16(50), uint16(2000), append(data, data...))
	}
	f.Add(uint8(5), uint16(4096), uint16(9999), brotliBomb())
	f.Fuzz(func(t *testing.T, which uint8, size, limit uint16, data []byte) {
		v := variants[int(which)%len(variants)]
		if size == 0 || limit == 0 {
			return
		}
		g := decoding(int64(limit))
		calls := 0
		g.OnError = func(error) { calls++ }
		b := guarded(t, g, v.header, bytes.NewReader(data))
		got, err := readAll(t, b, int(size))
		if len(got) > int(limit) {
			t.Fatalf("%d bytes, the cap is %d", len(got), limit)
		}
		var over *body.TooLargeError
		var failed *body.DecodeError
		tooLarge := errors.As(err, &over)
		switch {
		case (err != nil) != (calls == 1) || calls > 1:
			t.Fatalf("%d calls of OnError, error %v", calls, err)
		case err == nil:
			wantSticky(t, b, io.EOF)
		case !tooLarge && !errors.As(err, &failed):
			t.Fatalf("error of unknown kind: %v", err)
		default:
			wantSticky(t, b, err)
		}
		again, againErr := readAll(t, guarded(t, decoding(int64(limit)), v.header, iotest.OneByteReader(bytes.NewReader(data))), 3)
		if (err == nil) != (againErr == nil) || err == nil && !bytes.Equal(got, again) {
			t.Fatalf("byte by byte: %d bytes, %v; else %d bytes, %v", len(again), againErr, len(got), err)
		}
		if v.coding == body.Gzip || v.coding == body.Deflate {
			compareStd(t, v.coding, data, got, err, int64(limit), tooLarge)
		}
	})
}

// compareStd checks got and err against the standard library's decoder.
func compareStd(t *testing.T, coding body.Coding, data, got []byte, err error, limit int64, tooLarge bool) {
	if len(data) == 0 || errors.Is(err, stdgzip.ErrHeader) {
		return // an empty body is no error here, and a reserved flag in a gzip header is one (RFC 1952 section 2.3.1.2)
	}
	source := bytes.NewReader(data)
	var r io.Reader
	var stdErr error
	switch {
	case coding == body.Gzip:
		r, stdErr = stdgzip.NewReader(source)
	case len(data) > 1 && data[0]&15 == 8 && data[0]>>4 <= 7 && (int(data[0])<<8|int(data[1]))%31 == 0:
		r, stdErr = stdzlib.NewReader(source)
	default:
		r = stdflate.NewReader(source)
	}
	var want []byte
	if stdErr == nil {
		want, stdErr = io.ReadAll(io.LimitReader(r, limit+1))
	}
	switch fits := int64(len(want)) <= limit && int64(len(data)) <= limit; {
	case stdErr != nil && err == nil:
		t.Fatalf("no error, the standard library has %v", stdErr)
	case stdErr == nil && fits && source.Len() == 0 && err != nil:
		t.Fatalf("error %v, the standard library has none", err)
	case stdErr == nil && fits && !tooLarge && source.Len() == 0 && !bytes.Equal(got, want):
		t.Fatalf("%d bytes, the standard library has %d", len(got), len(want))
	case stdErr == nil && !bytes.HasPrefix(want, got):
		t.Fatalf("bytes other than the standard library's")
	}
}

// FuzzRoundTrip encodes arbitrary bytes and wants them back.
func FuzzRoundTrip(f *testing.F) {
	for i := range variants {
		f.Add(uint8(i), uint8(i), uint16(77), page(500))
	}
	f.Fuzz(func(t *testing.T, inner, outer uint8, size uint16, plain []byte) {
		in, out := variants[int(inner)%len(variants)], variants[int(outer)%len(variants)]
		if size == 0 {
			return
		}
		b := guarded(t, decoding(0), in.header+","+out.header, bytes.NewReader(out.encode(in.encode(plain))))
		if got, err := readAll(t, b, int(size)); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%s, %s: %d bytes, %v; want %d", in.name, out.name, len(got), err, len(plain))
		}
	})
}

// FuzzHeaders gives arbitrary fields: a response is either changed as a whole or not at all.
func FuzzHeaders(f *testing.F) {
	f.Add("gzip", "gzip, br;q=0", "no-store", "", 200)
	f.Add("identity,, x-gzip", "*;q=0", "", "bytes=0-", 206)
	f.Add("br,br,br,br,br,br", "", "max-age=1, no-transform", "", 404)
	f.Fuzz(func(t *testing.T, coding, accept, cache, ranges string, status int) {
		req, res := get(t), respond(coding, strings.NewReader(""))
		res.StatusCode = status
		res.Header.Set("Cache-Control", cache)
		req.Header.Set("Accept-Encoding", accept)
		if ranges != "" {
			req.Header.Set("Range", ranges)
		}
		before, original := res.Header.Clone(), res.Body
		mayDecode := decoding(0).Request(req.Header)
		if err := decoding(0).Response(req, res); err != nil {
			t.Fatal(err)
		}
		changed := res.Body != original
		if changed && (!mayDecode || res.Header.Get("Content-Encoding") != "" || !res.Uncompressed) {
			t.Fatalf("decoded although the request may not be: %v; header %v", !mayDecode, res.Header)
		}
		if !changed && (!reflect.DeepEqual(res.Header, before) || res.Uncompressed) {
			t.Fatalf("not decoded, but changed: %v", res.Header)
		}
		if offer := req.Header.Get("Accept-Encoding"); mayDecode != (offer == "gzip, deflate, br, zstd") && !strings.EqualFold(accept, offer) {
			t.Fatalf("may decode %v, offers %q", mayDecode, offer)
		}
	})
}
