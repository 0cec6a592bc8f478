package body_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddytunnel/caddytunnel/body"
)

// TestOnError checks that each failure of a body is told once, with its code, and that neither a proper end nor a body's
// closing is one.
func TestOnError(t *testing.T) {
	broken := errors.New("broken beneath")
	plain := page(3000)
	coded := variantOf("gzip").encode(plain)
	passing, capped := &body.Guard{}, &body.Guard{MaxBytes: 1000}
	cut := func(data []byte) io.Reader { return io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)) }
	tests := map[string]struct {
		guard  *body.Guard
		coding string
		source io.Reader
		want   body.Code // empty: none
	}{
		"passed":         {passing, "", bytes.NewReader(plain), ""},
		"passed_cut":     {passing, "", cut(plain), body.CodeIncomplete},
		"passed_over":    {capped, "", bytes.NewReader(plain), body.CodeTooLarge},
		"passed_exactly": {capped, "", bytes.NewReader(plain[:1000]), ""},
		"capped_cut":     {capped, "", cut(plain[:1000]), body.CodeIncomplete},
		"decoded":        {decoding(0), "gzip", bytes.NewReader(coded), ""},
		"decoded_over":   {decoding(1000), "gzip", bytes.NewReader(coded), body.CodeTooLarge},
		"decoded_cut":    {decoding(0), "gzip", cut(coded), body.CodeIncomplete},
		"decoded_short":  {decoding(0), "gzip", bytes.NewReader(coded[:len(coded)-1]), body.CodeDecodeFailed},
		"decoded_plain":  {decoding(0), "gzip", bytes.NewReader(plain), body.CodeDecodeFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var told []error
			test.guard.OnError = func(err error) { told = append(told, err) }
			b := guarded(t, test.guard, test.coding, test.source)
			_, err := readAll(t, b, 512)
			switch {
			case test.want == "" && (err != nil || len(told) > 0):
				t.Errorf("error %v, told %v", err, told)
			case test.want != "" && (len(told) != 1 || told[0] != err || body.CodeOf(err) != test.want):
				t.Errorf("error %v, told %v, want one %s", err, told, test.want)
			}
			if err == nil {
				err = io.EOF
			}
			wantSticky(t, b, err)
			b.Close()
			b.Read(make([]byte, 1))
			if len(told) > 1 {
				t.Errorf("told again: %v", told)
			}
		})
	}
	for name, coding := range map[string]string{"passed": "", "decoded": "gzip"} {
		t.Run("closed_"+name, func(t *testing.T) {
			pr, pw := io.Pipe()
			g := decoding(0)
			g.OnError = func(err error) { t.Errorf("told %v of a body that was closed", err) }
			res := respond(coding, nil)
			res.Body = pr
			if err := g.Response(get(t), res); err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() {
				_, err := io.Copy(io.Discard, res.Body)
				done <- err
			}()
			pw.Write(coded[:20])
			res.Body.Close()
			if err := <-done; err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestDeclaredLengthDecoded checks what is found in the first bytes of a body of declared length: before the response is
// given on. The response is then as it was.
func TestDeclaredLengthDecoded(t *testing.T) {
	plain := page(3000)
	for _, v := range variants {
		coded := v.encode(plain)
		tests := map[string]struct {
			source io.Reader
			want   body.Code
		}{
			"B12_plain_text": {strings.NewReader("\xff\xffplain text, whatever the head says"), body.CodeDecodeFailed},
			"B30_header":     {bytes.NewReader(append([]byte("\xff\xff\xff\xff\xff"), coded[5:]...)), body.CodeDecodeFailed},
			"B26_no_byte":    {iotest.ErrReader(io.ErrUnexpectedEOF), body.CodeIncomplete},
		}
		for name, test := range tests {
			t.Run(fmt.Sprintf("%s_%s", name, v.name), func(t *testing.T) {
				g := decoding(0)
				g.OnError = func(err error) { t.Errorf("told %v, which Response returns", err) }
				res := respond("", test.source)
				res.Header, res.ContentLength = origin(), 99
				res.Header.Set("Content-Encoding", v.header)
				header, original := res.Header.Clone(), res.Body
				err := g.Response(get(t), res)
				if err == nil || body.CodeOf(err) != test.want {
					t.Fatalf("error %v, want %s", err, test.want)
				}
				if res.Body != original || res.ContentLength != 99 || !reflect.DeepEqual(res.Header, header) {
					t.Errorf("the response was changed: %v", res.Header)
				}
			})
		}
		t.Run("whole_"+v.name, func(t *testing.T) {
			for _, size := range []int{1, 511, 512, 513, 4096} {
				res := respond(v.header, iotest.HalfReader(bytes.NewReader(coded)))
				res.ContentLength = int64(len(coded))
				if err := decoding(0).Response(get(t), res); err != nil {
					t.Fatal(err)
				}
				if got, err := readAll(t, res.Body, size); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("read %d bytes, %v", len(got), err)
				}
				wantSticky(t, res.Body, io.EOF)
			}
		})
	}
	t.Run("nothing_decoded", func(t *testing.T) {
		coded := variantOf("gzip").encode(nil)
		res := respond("gzip", bytes.NewReader(coded))
		res.ContentLength = int64(len(coded))
		if err := decoding(0).Response(get(t), res); err != nil {
			t.Fatal(err)
		}
		wantSticky(t, res.Body, io.EOF)
	})
	t.Run("not_read", func(t *testing.T) {
		for name, arrange := range map[string]func(g *body.Guard, res *http.Response){
			"events":         func(_ *body.Guard, res *http.Response) { res.Header.Set("Content-Type", "text/event-stream") },
			"unknown_length": func(_ *body.Guard, res *http.Response) { res.ContentLength = -1 },
			"passed":         func(g *body.Guard, _ *http.Response) { g.Decode = nil },
		} {
			g, res := decoding(0), respond("gzip", iotest.ErrReader(errors.New("read too early")))
			res.ContentLength = 99
			arrange(g, res)
			if err := g.Response(get(t), res); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
