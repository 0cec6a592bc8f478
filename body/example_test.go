package body_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/caddytunnel/caddytunnel/body"
)

func ExampleGuard() {
	g := &body.Guard{MaxBytes: 10, Decode: body.Codings()}

	req, _ := http.NewRequest(http.MethodGet, "http://origin.test/", nil)
	g.Request(req.Header)
	fmt.Println(req.Header.Get("Accept-Encoding"))

	res := &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader("more than ten bytes"))}
	if err := g.Response(req, res); err != nil {
		fmt.Println(err) // not here: the length is not known
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	var tooLarge *body.TooLargeError
	fmt.Printf("%q %v\n", got, errors.As(err, &tooLarge))
	fmt.Println(err)
	// Output:
	// gzip, deflate, br, zstd
	// "more than " true
	// response body as received has more than 10 bytes, which is the cap: raise max_body_bytes to let it pass [body_too_large]
}
