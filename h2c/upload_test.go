package h2c

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/net/http2"
)

var errGone = errors.New("client went away")

// TestBrokenUpload has the bodies of requests fail half way. Only their streams are reset, so that the peer can tell, and their
// slots are free for the next.
func TestBrokenUpload(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		fails  error // behind the text
		length int64
		want   error // nil: any
	}{
		"H09_at_once":           {"", errGone, -1, errGone},
		"H09_half_way":          {"half", errGone, -1, errGone},
		"H09_in_a_later_window": {strings.Repeat("x", 100_000), errGone, 200_000, errGone},
		"H09_at_the_end":        {"half", errGone, 4, errGone},
		"H09_too_short":         {"half", io.EOF, 8, io.ErrUnexpectedEOF},
		"H09_too_long":          {"more than half", io.EOF, 8, nil},
	} {
		for _, answered := range []bool{false, true} {
			if answered {
				name += "_answered"
			}
			t.Run(name, func(t *testing.T) {
				c := script(t, nil, func(p *peer) {
					long := p.request().StreamID
					p.head(long, false, ":status", "200")
					p.WriteData(long, false, []byte("before, "))
					for range 3 {
						id := p.request().StreamID
						if answered {
							p.head(id, false, ":status", "200")
						}
						if _, end := p.body(id); !isReset(end, http2.ErrCodeCancel) {
							t.Errorf("the upload ended with %v", end)
							return
						}
					}
					p.WriteData(long, true, []byte("after"))
					p.head(p.request().StreamID, true, ":status", "204")
					p.drain()
				}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
				free := make(chan struct{}, 64)
				c.Notify(func() { free <- struct{}{} })
				send := func(req *http.Request) (*http.Response, error) {
					for !c.Reserve() {
						if err := c.Err(); err != nil {
							return nil, err
						}
						<-free
					}
					return c.RoundTrip(req)
				}
				long, err := send(get(t))
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					body := &closeBody{Reader: io.MultiReader(strings.NewReader(test.text), iotest.ErrReader(test.fails))}
					req := get(t)
					req.Method, req.Body, req.ContentLength = http.MethodPost, body, test.length
					res, err := send(req)
					if err == nil {
						_, err = io.ReadAll(res.Body)
						res.Body.Close()
					}
					if err == nil || test.want != nil && !errors.Is(err, test.want) || !body.closed {
						t.Errorf("%v, want %v; body closed: %t", err, test.want, body.closed)
					}
				}
				if got, err := io.ReadAll(long.Body); err != nil || string(got) != "before, after" {
					t.Errorf("the other stream: %q, %v", got, err)
				}
				long.Body.Close()
				next, err := send(get(t))
				if err != nil {
					t.Fatal(err)
				}
				next.Body.Close()
			})
		}
	}
}

func isReset(f http2.Frame, code http2.ErrCode) bool {
	reset, ok := f.(*http2.RSTStreamFrame)
	return ok && reset.ErrCode == code
}
