package caddymodule

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	bombBytes = 32 << 20 // what a bomb decodes into
	bombLimit = 1 << 20
	// bombMemory is the most that may be allocated in the whole process from a bomb's request to its end, freed or not. A
	// decoder that goes on behind the limit, or that decodes at once and then looks, takes more.
	bombMemory = 24 << 20
)

// bombCodings are the names that bombs go by. rawdeflate is deflate without a wrapper.
var bombCodings = []string{"gzip", "deflate", "rawdeflate", "br", "zstd"}

// makeBomb encodes n zeros.
func makeBomb(coding string, n int) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w, _ = gzip.NewWriterLevel(&out, gzip.BestSpeed)
	case "deflate":
		w, _ = zlib.NewWriterLevel(&out, zlib.BestSpeed)
	case "rawdeflate":
		w, _ = flate.NewWriter(&out, flate.BestSpeed)
	case "br":
		w = brotli.NewWriterLevel(&out, brotli.BestSpeed)
	case "zstd":
		w, _ = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	}
	zeros := make([]byte, min(n, 1<<20))
	for ; n > 0; n -= len(zeros) {
		w.Write(zeros[:min(n, len(zeros))])
	}
	w.Close()
	return out.Bytes()
}

func gzipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(data)
	w.Close()
	return out.Bytes()
}

// serveCoded answers the same bytes each time. With length=1 in the query it tells their length.
func serveCoded(coding string, data []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", coding)
		if r.URL.Query().Get("length") != "" {
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		} else {
			http.NewResponseController(w).Flush()
		}
		w.Write(data)
	})
}

// allocated is how much this process has allocated so far, freed or not.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// zstdRuns is a frame of n blocks of four bytes, each of which makes 128 KiB (RFC 8878 section 3.1.1).
func zstdRuns(n int) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x50} // with a window of 1 MiB
	for i := range n {
		head := uint32(128<<10)<<3 | 1<<1
		if i == n-1 {
			head |= 1
		}
		out = append(out, byte(head), byte(head>>8), byte(head>>16), 'x')
	}
	return out
}

// oneCommand is a brotli stream, one command of which makes 16 MiB (RFC 7932 sections 9 and 10).
var oneCommand = []byte{0xf2, 0xff, 0xff, 0x1f, 0x00, 0x04, 0x5e, 0x3c, 0x16, 0x50, 0xee, 0xfd, 0x3f}

// TestBombs stops bodies that decode into much more than they are at the cap, with bounded memory.
func TestBombs(t *testing.T) {
	b := newBed(t)
	handlers := map[string]http.Handler{
		"/small":       serveCoded("gzip", makeBomb("gzip", 2<<20)),
		"/runs":        serveCoded("zstd", zstdRuns(512<<20>>17)),
		"/one-command": serveCoded("br", oneCommand),
	}
	for _, coding := range bombCodings {
		handlers["/"+coding] = serveCoded(strings.TrimPrefix(coding, "raw"), makeBomb(coding, bombBytes))
	}
	for _, coding := range []string{"gzip", "zstd"} {
		handlers["/members/"+coding] = serveCoded(coding, append(makeBomb(coding, 1<<10), makeBomb(coding, 4<<20)...))
	}
	b.extend(handlers)
	s := startCaddy(t, b.legSites("", fmt.Sprintf("decode\nmax_body_bytes %d", bombLimit), "")+
		b.legSites("untouched-", fmt.Sprintf("max_body_bytes %d", bombLimit), ""))
	stop := func(t *testing.T, l leg, path, counted string) {
		t.Helper()
		for client, query := range map[string]string{"h1": "", "h2c": "?length=1"} {
			logged, before := len(s.logged("response body failed")), allocated()
			d := s.download(t, client, "/"+l.name()+path+query)
			grown := allocated() - before
			if d.err == nil || d.status != 200 || len(d.body) > bombLimit || d.header.Get("Content-Encoding") != "" {
				t.Errorf("%s: %v", path, d)
			}
			if grown > bombMemory {
				t.Errorf("%s: %d MiB allocated", path, grown>>20)
			}
			if e := s.bodyFailed(t, logged, "body_too_large", b.target(l.protocol)); !strings.HasPrefix(fmt.Sprint(e["error"]), counted) {
				t.Errorf("logged %v", e)
			}
		}
	}
	for _, l := range bodyLegs {
		t.Run("B01_decoded_"+l.name(), func(t *testing.T) { stop(t, l, "/small", "decoded response body") })
		t.Run("B01_received_"+l.name(), func(t *testing.T) { stop(t, l, "/hollow/gzip?n=0&", "response body as received") })
		t.Run("B01_untouched_"+l.name(), func(t *testing.T) {
			d := s.download(t, "h1", "/untouched-"+l.name()+"/small")
			if d.err != nil || d.header.Get("Content-Encoding") != "gzip" || !bytes.Equal(d.body, makeBomb("gzip", 2<<20)) {
				t.Errorf("%v", d)
			}
		})
		for _, coding := range bombCodings {
			t.Run("B02_"+coding+"_"+l.name(), func(t *testing.T) { stop(t, l, "/"+coding, "decoded response body") })
		}
		t.Run("B03_"+l.name(), func(t *testing.T) { stop(t, l, "/runs", "decoded response body") })
		t.Run("B04_"+l.name(), func(t *testing.T) { stop(t, l, "/one-command", "decoded response body") })
		for _, coding := range []string{"gzip", "zstd"} {
			t.Run("B07_"+coding+"_"+l.name(), func(t *testing.T) { stop(t, l, "/members/"+coding, "decoded response body") })
		}
	}
}
