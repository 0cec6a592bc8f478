package caddymodule

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestDecode checks that every coding arrives undone, with the head edited, and that bytes pass untouched without decode.
func TestDecode(t *testing.T) {
	const n = 60_000
	b := newBed(t)
	s := startCaddy(t, b.legSites("", "decode", "")+b.legSites("untouched-", "", ""))
	assertPage := func(t *testing.T, client, path string) {
		t.Helper()
		d := s.download(t, client, path)
		sum := sha256.Sum256(d.body)
		if d.status != 200 || d.err != nil || hex.EncodeToString(sum[:]) != testbed.PageSum(n) || d.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", path, d)
		}
	}
	for _, l := range bodyLegs {
		t.Run(l.name(), func(t *testing.T) {
			for _, coding := range []string{"gzip", "deflate", "rawdeflate", "br", "zstd", "gzip,br", "zstd,deflate,gzip,br,gzip"} {
				for _, framing := range []string{"length", "chunked"} {
					assertPage(t, "h1", fmt.Sprintf("/%s/bytes/%d?coding=%s&framing=%s", l.name(), n, coding, framing))
				}
			}
			reqs := b.origin.Requests()
			if ae := reqs[len(reqs)-1].Header.Get("Accept-Encoding"); ae != "gzip, deflate, br, zstd" {
				t.Errorf("the origin was offered %q", ae)
			}
		})
		t.Run("B06_"+l.name(), func(t *testing.T) {
			for _, coding := range []string{"gzip", "x-gzip", "zstd"} {
				for _, client := range downloaders() {
					assertPage(t, client, fmt.Sprintf("/%s/bytes/%d?coding=%s&members=7&framing=chunked", l.name(), n, coding))
				}
				assertPage(t, "h1", fmt.Sprintf("/%s/bytes/%d?coding=%s&members=7", l.name(), n, coding))
			}
		})
		t.Run("B15_x-gzip_"+l.name(), func(t *testing.T) {
			for _, client := range downloaders() {
				assertPage(t, client, fmt.Sprintf("/%s/bytes/%d?coding=x-gzip", l.name(), n))
			}
		})
		t.Run("B22_untouched_"+l.name(), func(t *testing.T) {
			path := fmt.Sprintf("/bytes/%d?coding=gzip", n)
			direct, err := http.Get("http://" + b.origin.Plain + path)
			if err != nil {
				t.Fatal(err)
			}
			direct.Body.Close()
			for _, client := range downloaders() {
				d := s.download(t, client, "/untouched-"+l.name()+path)
				if d.status != 200 || d.err != nil || !bytes.HasPrefix(d.body, []byte{0x1f, 0x8b}) {
					t.Errorf("%s: %v", client, d)
				}
				for name := range direct.Header {
					if name != "Date" && !slices.Equal(d.header[name], direct.Header[name]) {
						t.Errorf("%s: %s became %q, the origin says %q", client, name, d.header[name], direct.Header[name])
					}
				}
			}
			reqs := b.origin.Requests()
			if ae := reqs[len(reqs)-1].Header["Accept-Encoding"]; len(ae) > 0 {
				t.Errorf("Accept-Encoding %q was added", ae)
			}
		})
	}
}

// TestDecodedHead checks what the transport's decoding changes of a response's head, and of the 304 for the same.
func TestDecodedHead(t *testing.T) {
	plain := []byte("a body that is the same whenever it is asked for\n")
	b := newBed(t)
	b.extend(map[string]http.Handler{"/page": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Etag", `"v1"`)
		h.Set("Vary", "Accept-Encoding, Cookie")
		if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), `W/"v1"`) {
			h.Set("Content-Encoding", r.Header.Get("X-Coding")) // few origins say so; a cache would take it for its decoded body
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Accept-Ranges", "bytes")
		h.Set("Content-Digest", "sha-256=:of the coded bytes:")
		h.Set("X-Kept", "yes")
		serveCoded("gzip", gzipped(plain)).ServeHTTP(w, r)
	})})
	s := startCaddy(t, b.legSites("", "decode", ""))
	for _, l := range bodyLegs {
		t.Run("B22_"+l.name(), func(t *testing.T) {
			for _, client := range downloaders() {
				for _, query := range []string{"", "?length=1"} {
					d := s.download(t, client, "/"+l.name()+"/page"+query)
					if d.status != 200 || d.err != nil || !bytes.Equal(d.body, plain) {
						t.Fatalf("%s: %v", client, d)
					}
					for name, want := range map[string]string{"Etag": `W/"v1"`, "Vary": "Accept-Encoding, Cookie", "X-Kept": "yes",
						"Content-Encoding": "", "Accept-Ranges": "", "Content-Digest": ""} {
						if got := d.header.Get(name); got != want {
							t.Errorf("%s: %s is %q, want %q", client, name, got, want)
						}
					}
					// The decoded length may be known, if the body came with the head.
					if got := d.header.Get("Content-Length"); got != "" && (query == "" || got != strconv.Itoa(len(plain))) {
						t.Errorf("%s: Content-Length is %q", client, got)
					}
				}
				for _, coding := range []string{"gzip", ""} {
					d := s.download(t, client, "/"+l.name()+"/page", `If-None-Match: "v0", W/"v1"`, "X-Coding: "+coding)
					if d.status != 304 || d.err != nil || d.header.Get("Etag") != `W/"v1"` || d.header.Get("Content-Encoding") != "" {
						t.Errorf("%s: not modified: %v", client, d)
					}
				}
			}
			res, _, err := s.do("HEAD", "/"+l.name()+"/page", nil, nil)
			if err != nil || res.Header.Get("Etag") != `W/"v1"` || res.Header.Get("Content-Encoding") != "" || res.Header.Get("Content-Length") != "" {
				t.Errorf("HEAD: %v %v", res, err)
			}
		})
	}
}

// TestDecodeNothing has responses that name a coding and have no body: they are neither decoded nor broken.
func TestDecodeNothing(t *testing.T) {
	coded := func(status int, length string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.WriteHeader(status)
			http.NewResponseController(w).Flush()
		})
	}
	b := newBed(t)
	b.extend(map[string]http.Handler{
		"/head": coded(200, "999"), "/204": coded(204, ""), "/304": coded(304, ""),
		"/zero": coded(200, "0"), "/chunked": coded(200, ""), "/404": coded(404, ""),
	})
	s := startCaddy(t, b.legSites("", "decode", ""))
	for _, l := range bodyLegs {
		t.Run("B11_"+l.name(), func(t *testing.T) {
			for path, status := range map[string]int{"/204": 204, "/304": 304, "/zero": 200, "/chunked": 200, "/404": 404} {
				for _, client := range downloaders() {
					if d := s.download(t, client, "/"+l.name()+path); d.status != status || d.err != nil || len(d.body) > 0 {
						t.Errorf("%s %s: %v", client, path, d)
					}
				}
			}
			for _, path := range []string{"/head", "/zero", "/chunked"} {
				res, body, err := s.do("HEAD", "/"+l.name()+path, nil, nil)
				if err != nil || res.StatusCode != 200 || len(body) > 0 || res.Header.Get("Content-Encoding") != "" {
					t.Errorf("HEAD %s: %v %v", path, res, err)
				}
			}
			for _, msg := range []string{"response body failed", "request failed"} {
				if e := s.logged(msg); len(e) > 0 {
					t.Errorf("logged %v", e)
				}
			}
		})
	}
}

// TestDeflateForms sends deflate with and without the zlib wrapper, in steps of a byte.
func TestDeflateForms(t *testing.T) {
	const plain = "deflate is sent in two forms, and the first two bytes tell which"
	var wrapped, raw bytes.Buffer
	zw := zlib.NewWriter(&wrapped)
	zw.Write([]byte(plain))
	zw.Close()
	fw, _ := flate.NewWriter(&raw, flate.DefaultCompression)
	fw.Write([]byte(plain))
	fw.Close()
	b := newBed(t)
	for form, data := range map[string][]byte{"zlib": wrapped.Bytes(), "raw": raw.Bytes()} {
		t.Run("B13_"+form, func(t *testing.T) {
			var h1, length, h2 strings.Builder
			h1.WriteString("-> head\n<- \"HTTP/1.1 200 OK\\r\\nContent-Encoding: deflate\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n\"\n")
			fmt.Fprintf(&length, "-> head\n<- \"HTTP/1.1 200 OK\\r\\nContent-Encoding: deflate\\r\\nContent-Length: %d\\r\\n\\r\\n\"\n<- dribble % x\n-> rest", len(data), data)
			h2.WriteString("h2\n-> HEADERS 1 END_STREAM\n<- HEADERS 1 :status=200 content-encoding=deflate\n")
			for _, c := range data {
				fmt.Fprintf(&h1, "<- \"1\\r\\n\" %02x \"\\r\\n\"\n", c)
				fmt.Fprintf(&h2, "<- DATA 1 %02x\n", c)
			}
			h1.WriteString("<- \"0\\r\\n\\r\\n\"\n-> rest")
			h2.WriteString("<- DATA 1 END_STREAM\n-> rest")
			for framing, text := range map[string]string{"http": h1.String(), "http length": length.String(), "h2c": h2.String()} {
				origin := script.Listen(t, text)
				scheme, _, _ := strings.Cut(framing, " ")
				s := startCaddy(t, fmt.Sprintf("reverse_proxy %s://%s {\ntransport tunnel {\n%s\ndecode\n}\n}", scheme, origin.Addr, b.via("socks5")))
				if d := s.download(t, "h1", "/"); d.status != 200 || d.err != nil || string(d.body) != plain {
					t.Errorf("%s: %v", framing, d)
				}
			}
		})
	}
}

// TestUnknownCoding passes a coding that is not known, or not wanted, as it is: a cap counts the bytes as they come.
func TestUnknownCoding(t *testing.T) {
	data := gzipped(bytes.Repeat([]byte("coded twice, once in a way that is not known\n"), 100))
	b := newBed(t)
	b.extend(map[string]http.Handler{
		"/exotic": serveCoded("exotic", data), "/stacked": serveCoded("gzip, exotic", data), "/unwanted": serveCoded("br", data),
		"/identity": serveCoded("identity, gzip", data), "/identity-last": serveCoded("x-gzip, identity", data),
	})
	s := startCaddy(t, b.legSites("", fmt.Sprintf("decode gzip\nmax_body_bytes %d", len(data)), "")+
		b.legSites("over-", fmt.Sprintf("decode gzip\nmax_body_bytes %d", len(data)-1), "")+b.legSites("free-", "decode gzip", ""))
	for _, l := range bodyLegs {
		t.Run("B15_unknown_"+l.name(), func(t *testing.T) {
			for path, coding := range map[string]string{"/exotic": "exotic", "/stacked": "gzip, exotic", "/unwanted": "br"} {
				for _, query := range []string{"", "?length=1"} {
					d := s.download(t, "h1", "/"+l.name()+path+query)
					if d.status != 200 || d.err != nil || !bytes.Equal(d.body, data) || d.header.Get("Content-Encoding") != coding {
						t.Errorf("%s: %v", path, d)
					}
				}
				logged := len(s.logged("response body failed"))
				if d := s.download(t, "h2c", "/over-"+l.name()+path); d.err == nil || len(d.body) >= len(data) {
					t.Errorf("%s over the cap: %v", path, d)
				}
				if e := s.bodyFailed(t, logged, "body_too_large", b.target(l.protocol)); !strings.HasPrefix(fmt.Sprint(e["error"]), "response body as received") {
					t.Errorf("logged %v", e)
				}
			}
		})
		t.Run("B15_identity_"+l.name(), func(t *testing.T) {
			for _, path := range []string{"/identity", "/identity-last"} {
				d := s.download(t, "h1", "/free-"+l.name()+path)
				if d.status != 200 || d.err != nil || !bytes.HasPrefix(d.body, []byte("coded twice")) || len(d.body) != 4500 || d.header.Get("Content-Encoding") != "" {
					t.Errorf("%s: %v", path, d)
				}
			}
		})
	}
}
