package testbed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// decoding reads through a coding, lazily: some readers read a header when they are made.
func decoding(t *testing.T, coding string, r io.Reader) io.Reader {
	t.Helper()
	var out io.Reader
	var err error
	switch coding {
	case "":
		out = r
	case "gzip":
		out, err = gzip.NewReader(r)
	case "deflate":
		out, err = zlib.NewReader(r)
	case "rawdeflate":
		out = flate.NewReader(r)
	case "br":
		out = brotli.NewReader(r)
	case "zstd":
		var d *zstd.Decoder
		d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		t.Cleanup(d.Close)
		out = d
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEventsWaitForTheirAcknowledgement(t *testing.T) {
	const n = 4
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		for _, coding := range append(codingNames(), "") {
			id := "stream-" + coding
			req, err := http.NewRequestWithContext(within(t), http.MethodGet, fmt.Sprintf("%s/events?n=%d&coding=%s&id=%s", m.base(o), n, coding, id), nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Header.Get(StreamHeader); got != id || res.Header.Get("Content-Encoding") != contentCoding(coding) {
				t.Errorf("%v", res.Header)
			}
			lines := bufio.NewReader(decoding(t, coding, res.Body))
			for seq := 1; seq <= n; seq++ {
				for _, want := range []string{fmt.Sprintf("id: %d\n", seq), fmt.Sprintf("data: {\"stream\":%q,\"seq\":%d}\n", id, seq), "\n"} {
					if line, err := lines.ReadString('\n'); err != nil || line != want {
						t.Fatalf("%s: line %q, want %q, %v", coding, line, want, err)
					}
				}
				if seq == n {
					break
				}
				if seq%2 == 0 {
					err = o.Ack(id, seq)
				} else if ack, _ := get(t, c, fmt.Sprintf("%s/events/ack?id=%s&seq=%d", m.base(o), id, seq)); ack.StatusCode != http.StatusNoContent {
					err = errors.New(ack.Status)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
				t.Errorf("%s: %q, %v", coding, rest, err)
			}
			res.Body.Close()
		}
	})
}

func TestEventIsNotWrittenBeforeTheAcknowledgement(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	// Nobody acknowledges: the second event never comes, and closing the origin ends the stream.
	conn := dialTCP(t, "tcp", o.Plain)
	fmt.Fprint(conn, "GET /events?id=a HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "id: 1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if second, _ := get(t, newClientOf(t, o, nil), "http://"+o.Plain+"/events?id=a"); second.StatusCode != http.StatusConflict {
		t.Errorf("a second stream of that id: %s", second.Status)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err == nil || strings.Contains(string(rest), "id: 2") {
		t.Errorf("%q, %v", rest, err)
	}
	if err := o.Ack("a", 1); !errors.Is(err, ErrNoStream) {
		t.Errorf("error %v", err)
	}
}

func TestEventsByTimeAndAhead(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	if _, body := get(t, c, "http://"+o.Plain+"/events?n=3&every=1ms&pad=100"); strings.Count(string(body), "data:") != 3 || len(body) < 300 {
		t.Errorf("%q", body)
	}
	if res, _ := get(t, c, "http://"+o.Plain+"/events/ack?id=none&seq=1"); res.StatusCode != http.StatusNotFound {
		t.Error(res.Status)
	}
}
