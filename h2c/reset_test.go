package h2c

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// resetCodes are what a peer may say of a stream that it gives up.
var resetCodes = []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeCancel, http2.ErrCodeInternal}

// TestReset has a peer reset streams in the middle of its answers: a reset ends no body well, whatever its code, and not even
// where all of the declared length has come.
func TestReset(t *testing.T) {
	for name, fields := range map[string][]string{
		"H04_no_length":        {":status", "200"},
		"H04_part_of_length":   {":status", "200", "content-length", "1000"},
		"H04_all_of_length":    {":status", "200", "content-length", "4"},
		"H04_trailers_to_come": {":status", "200", "trailer", "grpc-status"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, code := range resetCodes {
				for _, data := range []string{"", "some"} {
					c := script(t, nil, func(p *peer) {
						for range 2 {
							id := p.request().StreamID
							p.head(id, false, fields...)
							if data != "" {
								p.WriteData(id, false, []byte(data))
							}
							p.WriteRSTStream(id, code)
						}
						p.head(p.request().StreamID, true, ":status", "204")
						p.drain()
					})
					resets(t, c, get(t), data)
					upload, open := io.Pipe()
					post := get(t)
					post.Method, post.Body, post.ContentLength = http.MethodPost, upload, -1
					resets(t, c, post, data)
					if _, err := open.Write([]byte("x")); err == nil {
						t.Errorf("%s: the request's body is open", code)
					}
					reserve(t, c)
					res, err := c.RoundTrip(get(t))
					if err != nil {
						t.Fatalf("%s: the next request: %v", code, err)
					}
					res.Body.Close()
				}
			}
		})
	}
	t.Run("H04_tunnel", func(t *testing.T) {
		for _, code := range resetCodes {
			c := script(t, nil, func(p *peer) {
				id := p.accept("200")
				p.WriteData(id, false, []byte("some"))
				p.WriteRSTStream(id, code)
				p.drain()
			})
			s := connect(t, c)
			if got, err := io.ReadAll(s); err == nil || string(got) != "some" {
				t.Errorf("%s: %q, %v", code, got, err)
			}
			s.Close()
		}
	})
}

// resets sends a request, and wants data of its answer and then an error, again and again.
func resets(t *testing.T, c *Conn, req *http.Request, data string) {
	t.Helper()
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	_, again := res.Body.Read(make([]byte, 1))
	for _, err := range []error{err, again} {
		if _, ok := errors.AsType[*Error](err); !ok || string(got) != data {
			t.Errorf("%s: %q, %v", req.Method, got, err)
		}
	}
}
