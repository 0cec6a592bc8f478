package h1c

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// plain hides what a reader is, so that nobody knows that it does not block.
type plain struct{ io.Reader }

func TestRequests(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	body := func(r io.Reader) io.ReadCloser { return io.NopCloser(r) }
	for name, test := range map[string]struct {
		req  http.Request
		want string
	}{
		"get":            {http.Request{URL: uri("http://a.test/x?y=z")}, "GET /x?y=z HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"no_path":        {http.Request{URL: uri("http://a.test")}, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"raw_path":       {http.Request{URL: uri("http://a.test/a%2Fb%20c")}, "GET /a%2Fb%20c HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"force_query":    {http.Request{URL: uri("http://a.test/?")}, "GET /? HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"opaque":         {http.Request{URL: &url.URL{Scheme: "http", Host: "a.test", Opaque: "/%2f/"}}, "GET /%2f/ HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"asterisk":       {http.Request{Method: "OPTIONS", URL: &url.URL{Scheme: "http", Host: "a.test", Path: "*"}}, "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"host":           {http.Request{URL: uri("http://a.test/"), Host: "b.test:81"}, "GET / HTTP/1.1\r\nHost: b.test:81\r\n\r\n"},
		"host_not_ASCII": {http.Request{URL: uri("http://a.test/"), Host: "bücher.test"}, "GET / HTTP/1.1\r\nHost: xn--bcher-kva.test\r\n\r\n"},
		"host_zone":      {http.Request{URL: uri("http://a.test/"), Host: "[fe80::1%25en0]:80"}, "GET / HTTP/1.1\r\nHost: [fe80::1]:80\r\n\r\n"},
		"host_invalid":   {http.Request{URL: uri("http://a.test/"), Host: "a\r\nX: y"}, "GET / HTTP/1.1\r\nHost: \r\n\r\n"},
		"fields": {http.Request{URL: uri("http://a.test/"), Header: http.Header{
			"B": {" 1 ", "2"}, "A": {""}, "C": nil, "User-Agent": {" me\t", "not me"}, "c-lower": {"x"},
			"Host": {"no"}, "Content-Length": {"7"}, "Transfer-Encoding": {"gzip"}, "Trailer": {"X"}}},
			"GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: me\r\nA: \r\nB: 1\r\nB: 2\r\nc-lower: x\r\n\r\n"},
		"close":           {http.Request{URL: uri("http://a.test/"), Close: true}, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"},
		"close_and_field": {http.Request{URL: uri("http://a.test/"), Close: true, Header: http.Header{"Connection": {"close"}}}, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"},
		"post_nothing":    {http.Request{Method: "POST", URL: uri("http://a.test/")}, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"},
		"post_NoBody":     {http.Request{Method: "PUT", URL: uri("http://a.test/"), Body: http.NoBody}, "PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"},
		"delete_nothing":  {http.Request{Method: "DELETE", URL: uri("http://a.test/")}, "DELETE / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"length":          {http.Request{Method: "POST", URL: uri("http://a.test/"), ContentLength: 4, Body: body(strings.NewReader("data"))}, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\ndata"},
		"length_plain":    {http.Request{Method: "POST", URL: uri("http://a.test/"), ContentLength: 4, Body: body(plain{strings.NewReader("data")})}, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\ndata"},
		"get_with_length": {http.Request{URL: uri("http://a.test/"), ContentLength: 4, Body: body(plain{strings.NewReader("data")})}, "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\ndata"},
		"unknown":         {http.Request{Method: "POST", URL: uri("http://a.test/"), ContentLength: -1, Body: body(bytes.NewReader([]byte("data")))}, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n0\r\n\r\n"},
		"unknown_plain":   {http.Request{Method: "POST", URL: uri("http://a.test/"), Body: body(plain{strings.NewReader("data")})}, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n0\r\n\r\n"},
		"unknown_empty":   {http.Request{Method: "POST", URL: uri("http://a.test/"), ContentLength: -1, Body: body(plain{strings.NewReader("")})}, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"chunked_asked":   {http.Request{Method: "POST", URL: uri("http://a.test/"), ContentLength: 4, TransferEncoding: []string{"chunked"}, Body: body(strings.NewReader("data"))}, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n0\r\n\r\n"},
		"get_unknown":     {http.Request{URL: uri("http://a.test/"), ContentLength: -1, Body: body(plain{strings.NewReader("data")})}, "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nd\r\n3\r\nata\r\n0\r\n\r\n"},
		"get_empty":       {http.Request{URL: uri("http://a.test/"), ContentLength: -1, Body: body(plain{strings.NewReader("")})}, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"delete_empty":    {http.Request{Method: "DELETE", URL: uri("http://a.test/"), ContentLength: -1, Body: body(strings.NewReader(""))}, "DELETE / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"get_chunked":     {http.Request{URL: uri("http://a.test/"), ContentLength: -1, TransferEncoding: []string{"chunked"}, Body: body(plain{strings.NewReader("")})}, "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"identity":        {http.Request{Method: "DELETE", URL: uri("http://a.test/"), TransferEncoding: []string{"identity"}, Body: http.NoBody}, "DELETE / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"},
		"trailer": {http.Request{Method: "POST", URL: uri("http://a.test/"), ContentLength: -1, Trailer: http.Header{"B": {"2"}, "A": {"1"}}, Body: body(strings.NewReader("data"))},
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: A,B\r\n\r\n4\r\ndata\r\n0\r\nA: 1\r\nB: 2\r\n\r\n"},
		"trailer_and_length": {http.Request{Method: "POST", URL: uri("http://a.test/"), ContentLength: 4, Trailer: http.Header{"A": {"1"}}, Body: body(strings.NewReader("data"))},
			"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\ndata"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e engine) {
				want := test.want
				if name == "get_unknown" && e.isOwn() {
					want = strings.Replace(want, "1\r\nd\r\n3\r\nata\r\n", "4\r\ndata\r\n", 1)
				}
				heard := make(chan []byte, 1)
				near, far := tcp(t)
				c := e.between(t, nil, near, far, func(p *peer) {
					got := make([]byte, len(want))
					far.SetReadDeadline(time.Now().Add(20 * time.Second)) // if less comes
					n, _ := io.ReadFull(far, got)
					heard <- got[:n]
					script.Play(t, far, `<- "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
						-> eof`)
				})
				req := *test.req.WithContext(t.Context())
				if req.Header == nil {
					req.Header = http.Header{}
				}
				if seeker, ok := req.Body.(io.Seeker); ok {
					seeker.Seek(0, io.SeekStart)
				}
				if req.Body != nil && req.Body != http.NoBody {
					data, _ := io.ReadAll(req.Body)
					test.req.Body = body(bytes.NewReader(data)) // for the next engine
					req.Body = body(plain{bytes.NewReader(data)})
					if strings.Contains(name, "asked") || name == "length" || name == "unknown" || name == "trailer" {
						req.Body = body(bytes.NewReader(data))
					}
				}
				res := do(t, c, &req)
				text(t, res)
				if got := string(<-heard); got != want {
					t.Errorf("sent %q\nwant %q", got, want)
				}
			})
		})
	}
}

func TestInvalidRequests(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"method":          func(r *http.Request) { r.Method = "GET /\r\n" },
		"method_space":    func(r *http.Request) { r.Method = "G T" },
		"field_name":      func(r *http.Request) { r.Header["A b"] = []string{"x"} },
		"field_name_none": func(r *http.Request) { r.Header[""] = []string{"x"} },
		"field_value":     func(r *http.Request) { r.Header["A"] = []string{"x\r\nB: y"} },
		"field_NUL":       func(r *http.Request) { r.Header["A"] = []string{"\x00"} },
		"trailer_value":   func(r *http.Request) { r.Trailer = http.Header{"A": {"x\n"}} },
		"no_host":         func(r *http.Request) { r.URL.Host, r.Host = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e engine) {
				c := e.scripted(t, nil, `
					-> head "GET /next"
					<- "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
					-> rest`)
				body := &noted{Reader: strings.NewReader("data")}
				req := get(t, "/")
				req.Body, req.ContentLength = body, 4
				change(req)
				reserve(t, c)
				_, err := c.RoundTrip(req)
				var re *Error
				if !errors.As(err, &re) || !re.Invalid() || !re.Unprocessed() || !re.Unanswered() || strings.Contains(err.Error(), "B: y") {
					t.Errorf("%T: %v", err, err)
				}
				if !body.closed || body.read {
					t.Errorf("body closed %v, read %v", body.closed, body.read)
				}
				text(t, do(t, c, get(t, "/next")))
			})
		})
	}
}

// What only this engine finds before a byte is written. net/http's loses the connection, or sends it.
func TestInvalidRequestsOfOwn(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"control_in_URL": func(r *http.Request) { r.URL.Opaque = "/a\x7f" },
		"length_no_body": func(r *http.Request) { r.ContentLength = 5 },
		"trailer_of_frame": func(r *http.Request) {
			r.Body, r.Trailer = io.NopCloser(strings.NewReader("")), http.Header{"Content-Length": {"1"}}
		},
		"CONNECT": func(r *http.Request) { r.Method = http.MethodConnect },
		"no_URL":  func(r *http.Request) { r.URL = nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := own.scripted(t, nil, "-> rest")
			req := get(t, "/")
			change(req)
			reserve(t, c)
			_, err := c.RoundTrip(req)
			var re *Error
			if !errors.As(err, &re) || !re.Invalid() || c.Err() != nil || c.InFlight() != 0 {
				t.Errorf("%v, then %v", err, c.Err())
			}
		})
	}
}

// noted is a body that knows what was done with it.
type noted struct {
	io.Reader
	read, closed bool
}

func (n *noted) Read(p []byte) (int, error) {
	n.read = true
	return n.Reader.Read(p)
}

func (n *noted) Close() error {
	n.closed = true
	return nil
}

func TestTrace(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.scripted(t, &Config{ExpectContinueTimeout: 1 << 40}, `
			-> head
			<- "HTTP/1.1 100 Continue\r\n\r\n"
			-> "data"
			<- "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
			-> rest`)
		happened := make(chan string, 16)
		req := post(t, strings.NewReader("data"), 4)
		req.Header.Set("Expect", "100-continue")
		req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			WroteHeaderField:     func(k string, v []string) { happened <- k + "=" + strings.Join(v, "+") },
			WroteHeaders:         func() { happened <- "WroteHeaders" },
			Wait100Continue:      func() { happened <- "Wait100Continue" },
			GotFirstResponseByte: func() { happened <- "GotFirstResponseByte" },
			Got100Continue:       func() { happened <- "Got100Continue" },
			WroteRequest:         func(i httptrace.WroteRequestInfo) { happened <- "WroteRequest" },
		}))
		text(t, do(t, c, req))
		var got []string
		for range 8 {
			got = append(got, <-happened)
		}
		want := []string{"Host=origin.test", "Content-Length=4", "Expect=100-continue", "WroteHeaders", "Wait100Continue",
			"GotFirstResponseByte", "Got100Continue", "WroteRequest"}
		if slices.Sort(got[3:]); !slices.Equal(got[:3], want[:3]) || !sameSet(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
