package testbed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// decode undoes one coding.
func decode(t *testing.T, coding string, body []byte) ([]byte, error) {
	t.Helper()
	r := io.Reader(bytes.NewReader(body))
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "deflate":
		r, err = zlib.NewReader(r)
	case "rawdeflate":
		r = flate.NewReader(r)
	case "br":
		r = brotli.NewReader(r)
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1)); err == nil {
			defer d.Close()
			r = d
		}
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func TestBytes(t *testing.T) {
	sizes := []int64{0, 1, 1000, 200_000}
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		for _, n := range sizes {
			for _, coding := range append(codingNames(), "identity") {
				for _, framing := range []string{"length", "chunked"} {
					url := fmt.Sprintf("%s/bytes/%d?coding=%s&framing=%s", m.base(o), n, coding, framing)
					res, body := get(t, c, url)
					if res.Proto != m.proto {
						t.Fatalf("%s over %s", url, res.Proto)
					}
					if got := res.ContentLength; framing == "length" && got != int64(len(body)) || framing == "chunked" && got != -1 {
						t.Errorf("%s: Content-Length %d for %d bytes", url, got, len(body))
					}
					want := contentCoding(coding)
					if coding == "identity" {
						want = ""
					}
					if got := res.Header.Get("Content-Encoding"); got != want {
						t.Errorf("%s: Content-Encoding %q", url, got)
					}
					decoded, err := decode(t, coding, body)
					if err != nil || !bytes.Equal(decoded, pageBytes(n)) {
						t.Errorf("%s: error %v, or another page", url, err)
					}
					if got := res.Header.Get(SumHeader); got != PageSum(n) {
						t.Errorf("%s: %s %q", url, SumHeader, got)
					}
					if got := res.Trailer.Get(SumHeader); framing == "chunked" && got != PageSum(n) {
						t.Errorf("%s: trailer %s %q", url, SumHeader, got)
					}
				}
			}
		}
	})
}

func TestLargeBytesStream(t *testing.T) {
	const n = keepBody + 1
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	res, body := get(t, c, fmt.Sprintf("http://%s/bytes/%d", o.Plain, n))
	sum := sha256.Sum256(body)
	if got := hex.EncodeToString(sum[:]); got != res.Header.Get(SumHeader) || res.ContentLength != n || len(body) != n {
		t.Errorf("length %d, %d bytes, sum %s", res.ContentLength, len(body), got)
	}
	res, body = get(t, c, fmt.Sprintf("http://%s/bytes/%d?framing=chunked&seed=4", o.Plain, n))
	sum = sha256.Sum256(body)
	if got := hex.EncodeToString(sum[:]); got != res.Trailer.Get(SumHeader) || len(body) != n || res.Header.Get(SumHeader) != "" {
		t.Errorf("%d bytes, sum %s, trailer %v", len(body), got, res.Trailer)
	}
}

func TestHeadLikeGet(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		for _, path := range []string{"/bytes/5000?coding=br", "/bytes/5000?framing=chunked", "/bomb/gzip?n=100000"} {
			head, body, err := try(t, c, http.MethodHead, m.base(o)+path, nil)
			if err != nil || len(body) != 0 {
				t.Fatalf("%s: %v, %d bytes", path, err, len(body))
			}
			full, _ := get(t, c, m.base(o)+path)
			for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Content-Type"} {
				if head.Header.Get(name) != full.Header.Get(name) {
					t.Errorf("%s: %s is %q for HEAD and %q for GET", path, name, head.Header.Get(name), full.Header.Get(name))
				}
			}
		}
	})
}

func TestBytesStackedAndInMembers(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	res, body := get(t, c, "http://"+o.Plain+"/bytes/30000?coding=gzip,rawdeflate,br&members=3")
	if got := res.Header.Get("Content-Encoding"); got != "gzip, deflate, br" {
		t.Errorf("Content-Encoding %q", got)
	}
	if len(body) == 0 {
		t.Error("no body")
	}
	// Members are what the outermost coding makes of them: gzip and zstd readers go on behind the first.
	for _, coding := range []string{"gzip", "zstd"} {
		_, one := get(t, c, "http://"+o.Plain+"/bytes/30000?coding="+coding)
		_, many := get(t, c, "http://"+o.Plain+"/bytes/30000?members=7&coding="+coding)
		decoded, err := decode(t, coding, many)
		if err != nil || !bytes.Equal(decoded, pageBytes(30000)) || len(many) <= len(one) {
			t.Errorf("%s: %v, %d bytes in one member, %d in seven", coding, err, len(one), len(many))
		}
	}
}

func TestBytesNegotiated(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	for accept, want := range map[string]string{
		"":                            "",
		"br":                          "br",
		"gzip, br":                    "gzip",
		"gzip;q=0, zstd;q=0.5":        "zstd",
		"gzip; q=0.000, BR":           "br",
		"identity":                    "",
		"rawdeflate, compress, *;q=1": "",
		"gzip;q=nonsense":             "",
	} {
		res, _ := get(t, c, "http://"+o.Plain+"/bytes/100?coding=auto", "Accept-Encoding", accept)
		if got := res.Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q is answered with %q, want %q", accept, got, want)
		}
	}
}

func TestBytesRange(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	_, whole := get(t, c, "http://"+o.Plain+"/bytes/5000?coding=gzip")
	res, part := get(t, c, "http://"+o.Plain+"/bytes/5000?coding=gzip", "Range", "bytes=10-19")
	if res.StatusCode != http.StatusPartialContent || !bytes.Equal(part, whole[10:20]) || res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d, %d bytes, %v", res.StatusCode, len(part), res.Header)
	}
}

func TestBytesRefusesWhatItCannotDo(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	for _, path := range []string{
		"/bytes/-1", "/bytes/x", "/bytes/1TiB", "/bytes/99999999999999999999", "/bytes/1?coding=lzma", "/bytes/1?seed=x",
		"/bytes/1?members=0", "/bytes/1?window=3000&coding=zstd", "/bytes/1?coding=" + strings.Repeat("gzip,", 8) + "gzip",
		"/bytes/1?coding=gzip,,br", "/bomb/lzma", "/bomb/gzip?n=x", "/hollow/br", "/events?n=-1", "/events?coding=x", "/events?every=1",
		"/slow?n=x", "/status/100", "/status/x", "/events/ack?id=x&seq=y", "/broken/corrupt/lzma", "/broken/short?send=x",
	} {
		if res, body := get(t, c, "http://"+o.Plain+path); res.StatusCode != http.StatusBadRequest || len(body) == 0 {
			t.Errorf("%s: %d %q", path, res.StatusCode, body)
		}
	}
	if res, _ := get(t, c, "http://"+o.Plain+"/nothing"); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown path: %d", res.StatusCode)
	}
}

func TestWindowOfZstd(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	_, body := get(t, newClientOf(t, o, nil), "http://"+o.Plain+"/bytes/1MiB?coding=zstd&window=16MiB")
	var header zstd.Header
	if err := header.Decode(body); err != nil || header.WindowSize != 16<<20 {
		t.Errorf("window of %d bytes, %v", header.WindowSize, err)
	}
}

func TestBombs(t *testing.T) {
	const n = 1 << 20
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		for _, coding := range codingNames() {
			res, body := get(t, c, fmt.Sprintf("%s/bomb/%s?n=%d", m.base(o), coding, n))
			decoded, err := decode(t, coding, body)
			if err != nil || len(decoded) != n || len(body) > n/500 || res.Header.Get("Content-Encoding") != contentCoding(coding) {
				t.Errorf("%s: %d bytes decode into %d, %v", coding, len(body), len(decoded), err)
			}
		}
		for _, coding := range []string{"gzip", "zstd"} {
			_, body := get(t, c, m.base(o)+"/bomb/"+coding+"?n=100000&first=1")
			if decoded, err := decode(t, coding, body); err != nil || len(decoded) != 100000 {
				t.Errorf("%s in two members: %d bytes, %v", coding, len(decoded), err)
			}
			_, body = get(t, c, m.base(o)+"/hollow/"+coding+"?n=5000")
			if decoded, err := decode(t, coding, body); err != nil || len(decoded) != 0 || len(body) < 5000 {
				t.Errorf("%s hollow: %d bytes decode into %d, %v", coding, len(body), len(decoded), err)
			}
		}
	})
}

func TestBrokenCodings(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	for _, how := range []string{"corrupt", "cut", "plain"} {
		for _, coding := range codingNames() {
			res, body := get(t, c, "http://"+o.Plain+"/broken/"+how+"/"+coding)
			if _, err := decode(t, coding, body); err == nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s %s: %d, and it decodes", how, coding, res.StatusCode)
			}
		}
	}
}

func TestBodyStoreIsBounded(t *testing.T) {
	var store bodyStore
	for seed := range int64(20) {
		store.keep(bodySpec{seed: seed}, &rendered{body: make([]byte, keepBody)})
		if store.held > keepBodies || int64(len(store.known))*keepBody != store.held {
			t.Fatalf("%d bytes are kept in %d bodies", store.held, len(store.known))
		}
	}
	for seed := range int64(3 * maxRecords) {
		store.keep(bodySpec{seed: seed}, new(rendered))
		if len(store.known) > maxRecords+1 {
			t.Fatalf("%d bodies are kept", len(store.known))
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "7": 7, "7B": 7, "1KiB": 1024, "2KB": 2000, "64MiB": 64 << 20, "1MB": 1e6, "1GiB": 1 << 30, "1GB": 1e9,
	} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("%q is %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "B", "-1", "1kb", "1 KiB", "1.5MiB", "1TiB", "1iB", strconv.FormatUint(1<<63, 10), "9999999999GiB"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("%q is %d", s, got)
		}
	}
}
