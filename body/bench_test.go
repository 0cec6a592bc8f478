package body_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/caddytunnel/caddytunnel/body"
)

// BenchmarkPassThrough compares reading a body as it is with reading it under a cap.
func BenchmarkPassThrough(b *testing.B) {
	plain := page(1 << 20)
	buf := make([]byte, 32<<10)
	for name, g := range map[string]*body.Guard{"plain": {}, "capped": {MaxBytes: 1 << 20}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				r := guarded(b, g, "", bytes.NewReader(plain))
				for err := error(nil); err == nil; {
					_, err = r.Read(buf)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	plain := page(256 << 10)
	buf := make([]byte, 32<<10)
	for _, v := range variants {
		data := v.encode(plain)
		b.Run(v.name, func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				r := guarded(b, decoding(0), v.header, bytes.NewReader(data))
				var err error
				for err == nil {
					_, err = r.Read(buf)
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}
