package body_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/body"
)

func TestRequest(t *testing.T) {
	const offer = "gzip, deflate, br, zstd"
	tests := map[string]struct {
		header http.Header
		want   []string
		ok     bool
	}{
		"nothing":           {http.Header{}, []string{offer}, true},
		"others":            {http.Header{"Accept-Encoding": {"dcb, gzip;q=0.5", "br"}}, []string{offer}, true},
		"any":               {http.Header{"Accept-Encoding": {"*"}}, []string{offer}, true},
		"identity_too":      {http.Header{"Accept-Encoding": {"identity, gzip;q=0.1"}}, []string{offer}, true},
		"identity":          {http.Header{"Accept-Encoding": {"identity"}}, []string{"identity"}, false},
		"identity_weighted": {http.Header{"Accept-Encoding": {"Identity;q=0.5, *;q=0"}}, []string{"identity"}, false},
		"all_refused":       {http.Header{"Accept-Encoding": {"gzip; q=0, br;Q=0.000"}}, []string{"identity"}, false},
		"empty":             {http.Header{"Accept-Encoding": {""}}, []string{"identity"}, false},
		"range":             {http.Header{"Accept-Encoding": {"gzip"}, "Range": {"bytes=0-1"}}, []string{"identity"}, false},
		"no-transform":      {http.Header{"Accept-Encoding": {"br"}, "Cache-Control": {"max-age=0, No-Transform"}}, []string{"br"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if ok := decoding(0).Request(test.header); ok != test.ok || !reflect.DeepEqual(test.header["Accept-Encoding"], test.want) {
				t.Errorf("%v, Accept-Encoding %q", ok, test.header["Accept-Encoding"])
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		h := http.Header{"Accept-Encoding": {"br"}}
		if new(body.Guard).Request(h) || h.Get("Accept-Encoding") != "br" {
			t.Errorf("Accept-Encoding %q", h["Accept-Encoding"])
		}
	})
	t.Run("some", func(t *testing.T) {
		h := http.Header{}
		g := &body.Guard{Decode: []body.Coding{body.Zstd, "nonsense", body.Gzip}}
		if !g.Request(h) || h.Get("Accept-Encoding") != "zstd, gzip" {
			t.Errorf("Accept-Encoding %q", h["Accept-Encoding"])
		}
	})
}

func origin() http.Header {
	return http.Header{
		"Content-Type": {"text/html"}, "Content-Length": {"99"}, "Content-Encoding": {"gzip"}, "Etag": {`"abc"`},
		"Vary": {"Accept-Encoding"}, "Accept-Ranges": {"bytes"}, "Content-Md5": {"a"}, "Digest": {"b"},
		"Content-Digest": {"c"}, "Repr-Digest": {"d"}, "Last-Modified": {"then"},
	}
}

func TestHeaderEdits(t *testing.T) {
	want := http.Header{"Content-Type": {"text/html"}, "Etag": {`W/"abc"`}, "Vary": {"Accept-Encoding"}, "Last-Modified": {"then"}}
	data := variantOf("gzip").encode([]byte("text"))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		t.Run("B22_"+method, func(t *testing.T) {
			res := respond("", bytes.NewReader(data))
			res.Header, res.ContentLength = origin(), 99
			if method == http.MethodHead {
				res.Body = http.NoBody
			}
			req := get(t)
			req.Method = method
			if err := decoding(0).Response(req, res); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(res.Header, want) || res.ContentLength != -1 || !res.Uncompressed {
				t.Errorf("length %d, uncompressed %v, header %v", res.ContentLength, res.Uncompressed, res.Header)
			}
			if method == http.MethodHead && res.Body != http.NoBody {
				t.Error("HEAD got a body")
			}
		})
	}
	for tag, want := range map[string]string{`W/"abc"`: `W/"abc"`, ``: ``} {
		res := respond("gzip", bytes.NewReader(data))
		res.Header.Set("Etag", tag)
		if err := decoding(0).Response(get(t), res); err != nil || res.Header.Get("Etag") != want {
			t.Errorf("ETag %q became %q, %v", tag, res.Header.Get("Etag"), err)
		}
	}
}

// TestUntouched has the responses whose coding must stay.
func TestUntouched(t *testing.T) {
	tests := map[string]func(g *body.Guard, req *http.Request, res *http.Response){
		"B22_off":    func(g *body.Guard, _ *http.Request, _ *http.Response) { g.Decode = nil },
		"not_wanted": func(g *body.Guard, _ *http.Request, _ *http.Response) { g.Decode = []body.Coding{body.Zstd} },
		"partial":    func(_ *body.Guard, _ *http.Request, res *http.Response) { res.StatusCode = 206 },
		"B11_204":    func(_ *body.Guard, _ *http.Request, res *http.Response) { res.StatusCode = 204 },
		"upgrade":    func(_ *body.Guard, _ *http.Request, res *http.Response) { res.StatusCode = 101 },
		"no-transform": func(_ *body.Guard, _ *http.Request, res *http.Response) {
			res.Header.Set("Cache-Control", "no-transform")
		},
		"no-transform_sent": func(_ *body.Guard, req *http.Request, _ *http.Response) {
			req.Header.Set("Cache-Control", "no-transform")
		},
		"identity": func(_ *body.Guard, req *http.Request, _ *http.Response) {
			req.Header.Set("Accept-Encoding", "identity")
		},
		"range":       func(_ *body.Guard, req *http.Request, _ *http.Response) { req.Header.Set("Range", "bytes=5-") },
		"B15_unknown": func(_ *body.Guard, _ *http.Request, res *http.Response) { res.Header.Add("Content-Encoding", "exotic") },
		"six": func(_ *body.Guard, _ *http.Request, res *http.Response) {
			res.Header.Set("Content-Encoding", "gzip,gzip,gzip,gzip,gzip,gzip")
		},
		"only_identity": func(_ *body.Guard, _ *http.Request, res *http.Response) {
			res.Header.Set("Content-Encoding", "identity")
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			g, req, res := decoding(0), get(t), respond("", strings.NewReader("whatever"))
			res.Header, res.ContentLength = origin(), 99
			arrange(g, req, res)
			header, original := res.Header.Clone(), res.Body
			if err := g.Response(req, res); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(res.Header, header) || res.ContentLength != 99 || res.Uncompressed || res.Body != original {
				t.Errorf("length %d, uncompressed %v, header %v", res.ContentLength, res.Uncompressed, res.Header)
			}
		})
	}
}

func TestEmptyBody(t *testing.T) {
	for _, v := range variants {
		for _, length := range []int64{0, -1} {
			t.Run(fmt.Sprintf("B11_%s_%d", v.name, length), func(t *testing.T) {
				res := respond(v.header, strings.NewReader(""))
				if res.ContentLength = length; length == 0 {
					res.Header.Set("Content-Length", "0")
				}
				if err := decoding(0).Response(get(t), res); err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(res.Body); len(got) > 0 || err != nil {
					t.Fatalf("read %q, %v", got, err)
				}
				if res.Header.Get("Content-Encoding") != "" || res.ContentLength != length || !res.Uncompressed {
					t.Errorf("length %d, header %v", res.ContentLength, res.Header)
				}
			})
		}
	}
}

func TestParseCoding(t *testing.T) {
	for name, want := range map[string]body.Coding{"gzip": body.Gzip, "X-GZip": body.Gzip, "deflate": body.Deflate, "BR": body.Brotli, "zstd": body.Zstd} {
		if c, err := body.ParseCoding(name); c != want || err != nil {
			t.Errorf("%s: %q, %v", name, c, err)
		}
	}
	for _, name := range []string{"", "identity", "compress", "gzip "} {
		if c, err := body.ParseCoding(name); c != "" || err == nil || !strings.Contains(err.Error(), "gzip, deflate, br or zstd") {
			t.Errorf("%q: %q, %v", name, c, err)
		}
	}
	if body.Codings()[0] = "changed"; body.Codings()[0] != body.Gzip {
		t.Error("Codings shares its slice")
	}
}
