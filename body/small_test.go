package body_test

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"testing"
	"testing/iotest"

	"github.com/caddytunnel/caddytunnel/body"
)

// A body that has come with its head as a whole is decoded before the head is given on, if it is small: it keeps a length.
func TestSmall(t *testing.T) {
	const all, later = true, false
	for name, tt := range map[string]struct {
		size   int
		atOnce bool // its end comes with its last bytes
		media  string
		length bool
	}{
		"whole":                {10_000, all, "text/html", true},
		"largest":              {256<<10 - 1, all, "text/html", true},
		"decodes_to_more":      {256<<10 + 1, all, "text/html", false},
		"decodes_to_much_more": {1 << 20, all, "text/html", false},
		"its_end_comes_later":  {10_000, later, "text/html", false},
		"event_stream":         {10_000, all, "text/event-stream", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range variants {
				data := bytes.Repeat(page(100), tt.size/100+1)[:tt.size]
				encoded := v.encode(data)
				var r io.Reader = bytes.NewReader(encoded)
				if tt.atOnce {
					r = &atOnce{encoded}
				}
				res := respond(v.header, r)
				res.ContentLength = int64(len(encoded))
				res.Header.Set("Content-Length", strconv.Itoa(len(encoded)))
				res.Header.Set("Content-Type", tt.media)
				if err := decoding(-1).Response(get(t), res); err != nil {
					t.Fatalf("%s: %v", v.name, err)
				}
				want, field := int64(-1), ""
				if tt.length && len(encoded) <= 64<<10 {
					want, field = int64(tt.size), strconv.Itoa(tt.size)
				}
				if res.ContentLength != want || res.Header.Get("Content-Length") != field {
					t.Errorf("%s: a length of %d, and Content-Length: %s", v.name, res.ContentLength, res.Header.Get("Content-Length"))
				}
				if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v", v.name, len(got), err)
				}
				if err := res.Body.Close(); err != nil {
					t.Errorf("%s: %v", v.name, err)
				}
			}
		})
	}
}

// What is wrong with such a body is found while another answer can be given.
func TestSmallFails(t *testing.T) {
	encoded := variantOf("gzip").encode(page(50_000))
	for name, tt := range map[string]struct {
		body []byte
		cap  int64
		code body.Code
	}{
		"over_the_cap": {encoded, 49_999, body.CodeTooLarge},
		"cut":          {encoded[:len(encoded)-1], -1, body.CodeDecodeFailed},
		"damaged_late": {append(bytes.Clone(encoded[:len(encoded)-5]), 'x', 'x', 'x', 'x', 'x'), -1, body.CodeDecodeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			res := respond("gzip", &atOnce{tt.body})
			res.ContentLength = int64(len(tt.body))
			err := decoding(tt.cap).Response(get(t), res)
			if body.CodeOf(err) != tt.code {
				t.Errorf("%v, want %s", err, tt.code)
			}
		})
	}
	t.Run("breaks_off", func(t *testing.T) {
		broke := errors.New("broke off")
		res := respond("gzip", io.MultiReader(bytes.NewReader(encoded[:1000]), iotest.ErrReader(broke)))
		res.ContentLength = int64(len(encoded))
		if err := decoding(-1).Response(get(t), res); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(res.Body); !errors.Is(err, broke) {
			t.Error(err)
		}
	})
}

// atOnce gives what there is in one Read, and the end with it.
type atOnce struct{ b []byte }

func (r *atOnce) Read(p []byte) (int, error) {
	n := copy(p, r.b)
	if r.b = r.b[n:]; len(r.b) == 0 {
		return n, io.EOF
	}
	return n, nil
}
