package caddymodule

import (
	"io"
	"net/http"
	"testing"
)

// TestReuseOverEveryWay makes requests one after the other. The connection is looked at before each but the first, over every way:
// it has to pass for what it is.
func TestReuseOverEveryWay(t *testing.T) {
	b := newBed(t)
	for _, way := range bedWays {
		for _, protocol := range bedProtocols {
			t.Run(way+"_"+protocol, func(t *testing.T) {
				tr := b.transport(way, protocol)
				provision(t, tr)
				before := b.origin.Accepted()
				for _, size := range []string{"1", "1KiB", "100KiB", "0", "1MiB"} {
					for _, framing := range []string{"length", "chunked"} {
						exchange(t, tr, b.request(t, protocol, "/bytes/"+size+"?framing="+framing))
					}
				}
				if got := b.origin.Accepted() - before; got != 1 {
					t.Errorf("%d connections", got)
				}
			})
		}
	}
}

// exchange is a request and its response, to the end.
func exchange(t *testing.T, tr *Transport, req *http.Request) {
	t.Helper()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
		t.Errorf("%s, %v", res.Status, err)
	}
}
