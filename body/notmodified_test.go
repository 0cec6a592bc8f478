package body_test

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/caddytunnel/caddytunnel/body"
)

// TestNotModified checks that a 304 has the fields of the 200 that it stands for, decoded or not, and no body.
func TestNotModified(t *testing.T) {
	const strong, weak = `"abc"`, `W/"abc"`
	tests := map[string]struct {
		guard    *body.Guard
		sent     http.Header
		received http.Header
		want     http.Header
	}{
		"B11_coded": {decoding(0), http.Header{"If-None-Match": {weak}},
			http.Header{"Etag": {strong}, "Content-Encoding": {"gzip"}, "Content-Length": {"99"}, "Content-Digest": {"c"}, "Vary": {"Accept-Encoding"}},
			http.Header{"Etag": {weak}, "Vary": {"Accept-Encoding"}}},
		"B11_coded_by_date": {decoding(0), http.Header{"If-Modified-Since": {"then"}},
			http.Header{"Content-Encoding": {"x-gzip, br"}, "Last-Modified": {"then"}}, http.Header{"Last-Modified": {"then"}}},
		"B22_weak_held":   {decoding(0), http.Header{"If-None-Match": {`"old", ` + weak}}, http.Header{"Etag": {strong}}, http.Header{"Etag": {weak}}},
		"B22_strong_held": {decoding(0), http.Header{"If-None-Match": {`"old"`, strong}}, http.Header{"Etag": {strong}}, http.Header{"Etag": {strong}}},
		"B22_none_held":   {decoding(0), http.Header{"If-Modified-Since": {"then"}}, http.Header{"Etag": {strong}}, http.Header{"Etag": {weak}}},
		"B22_any_held":    {decoding(0), http.Header{"If-None-Match": {"*"}}, http.Header{"Etag": {strong}}, http.Header{"Etag": {weak}}},
		"B22_weak_sent":   {decoding(0), http.Header{"If-None-Match": {weak}}, http.Header{"Etag": {weak}}, http.Header{"Etag": {weak}}},
		"B22_untagged":    {decoding(0), http.Header{"If-None-Match": {weak}}, http.Header{"Vary": {"Cookie"}}, http.Header{"Vary": {"Cookie"}}},
		"B22_off": {&body.Guard{}, http.Header{"If-None-Match": {weak}},
			http.Header{"Etag": {strong}, "Content-Encoding": {"gzip"}}, http.Header{"Etag": {strong}, "Content-Encoding": {"gzip"}}},
		"B22_unknown_coding": {decoding(0), http.Header{"If-None-Match": {weak}},
			http.Header{"Etag": {strong}, "Content-Encoding": {"exotic"}}, http.Header{"Etag": {strong}, "Content-Encoding": {"exotic"}}},
		"B22_identity_asked_for": {decoding(0), http.Header{"If-None-Match": {weak}, "Accept-Encoding": {"identity"}},
			http.Header{"Etag": {strong}}, http.Header{"Etag": {strong}}},
		"B22_no-transform": {decoding(0), http.Header{"If-None-Match": {weak}},
			http.Header{"Etag": {strong}, "Cache-Control": {"no-transform"}}, http.Header{"Etag": {strong}, "Cache-Control": {"no-transform"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req, res := get(t), respond("", nil)
			req.Header = test.sent
			res.StatusCode, res.Header, res.ContentLength, res.Body = http.StatusNotModified, test.received, 0, http.NoBody
			if err := test.guard.Response(req, res); err != nil || res.Body != http.NoBody {
				t.Fatalf("body %v, %v", res.Body, err)
			}
			if !reflect.DeepEqual(res.Header, test.want) {
				t.Errorf("fields %v, want %v", res.Header, test.want)
			}
		})
	}
}
