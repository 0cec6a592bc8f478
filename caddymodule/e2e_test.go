package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestBodies sends bodies of four sizes down and up, over every dialect and protocol, and compares them at both ends.
func TestBodies(t *testing.T) {
	each(t, "", func(t *testing.T, b *bed, s *server, way, protocol string) {
		for _, n := range []int64{1, 64 << 10, 1 << 20, 8 << 20} {
			assertDown(t, s, n)
			assertUp(t, s, n, wireProto(protocol))
		}
		if way != "direct" && len(b.proxies[way].Seen()) == 0 {
			t.Errorf("the %s proxy carried nothing", way)
		}
	})
}

func assertDown(t *testing.T, s *server, n int64) {
	t.Helper()
	res, err := s.client().Get(fmt.Sprintf("%s/bytes/%d", s.url, n))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	sum := sha256.New()
	got, err := io.Copy(sum, res.Body)
	if err != nil || got != n || hex.EncodeToString(sum.Sum(nil)) != testbed.PageSum(n) {
		t.Errorf("down, %d bytes: got %d, equal %v, %v", n, got, hex.EncodeToString(sum.Sum(nil)) == testbed.PageSum(n), err)
	}
}

func assertUp(t *testing.T, s *server, n int64, proto string) {
	t.Helper()
	res, err := s.client().Post(s.url+"/upload", "text/html", testbed.PageReader(n))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var up testbed.Uploaded
	if err := json.NewDecoder(res.Body).Decode(&up); err != nil {
		t.Fatal(err)
	}
	if up.Bytes != n || up.SHA256 != testbed.PageSum(n) || up.Proto != proto {
		t.Errorf("up, %d bytes: the origin got %d over %s, equal %v", n, up.Bytes, up.Proto, up.SHA256 == testbed.PageSum(n))
	}
}

// TestTrailersAndInterim checks that trailers pass both ways, and 1xx responses.
func TestTrailersAndInterim(t *testing.T) {
	for _, way := range []string{"http", "h2"} {
		for _, protocol := range bedProtocols {
			t.Run(way+"/"+protocol, func(t *testing.T) {
				b := newBed(t)
				s := startCaddy(t, b.site(way, protocol, "", ""))
				res, _, err := s.do("GET", "/trailers", nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(res.Trailer) == 0 {
					t.Error("no trailers arrived")
				}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", s.url+"/upload", struct{ io.Reader }{strings.NewReader("x")})
				req.Trailer = http.Header{"X-Checksum": nil}
				req.Body = &trailerBody{Reader: strings.NewReader("hello"), set: func() { req.Trailer.Set("X-Checksum", "abc") }}
				res, err = s.client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				data, _ := io.ReadAll(res.Body)
				if !strings.Contains(string(data), "X-Checksum") || !strings.Contains(string(data), "abc") {
					t.Errorf("the origin did not get the request's trailer: %s", data)
				}
				if n := interim(t, s, "/early-hints"); n != 2 {
					t.Errorf("%d interim responses, want 2", n)
				}
				b.assertNoDirect()
			})
		}
	}
}

// trailerBody sets the trailers when its end has been read.
type trailerBody struct {
	io.Reader
	set func()
}

func (b *trailerBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.set()
	}
	return n, err
}

func (b *trailerBody) Close() error { return nil }
