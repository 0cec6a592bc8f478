package testbed

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	v2TCP4  = proxyV2 + "\x21\x11\x00\x0c" + "\x0a\x00\x00\x01\x0a\x00\x00\x02\x04\xd2\x01\xbb"
	v2Local = proxyV2 + "\x20\x00\x00\x00"
	v2TLV   = proxyV2 + "\x21\x11\x00\x10" + "\x0a\x00\x00\x01\x0a\x00\x00\x02\x04\xd2\x01\xbb" + "\x04\x00\x01\x00"
)

func v2TCP6() string {
	return proxyV2 + "\x21\x21\x00\x24" + strings.Repeat("\x00", 15) + "\x01" + strings.Repeat("\x00", 15) + "\x02" + "\x04\xd2\x01\xbb"
}

func TestReadProxyHeader(t *testing.T) {
	for _, c := range []struct{ in, source, rest string }{
		{"PROXY TCP4 10.0.0.1 10.0.0.2 1234 443\r\n", "10.0.0.1:1234", ""},
		{"PROXY TCP6 ::1 ::2 1234 443\r\n", "[::1]:1234", ""},
		{"PROXY UNKNOWN\r\n", "UNKNOWN", ""},
		{"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "UNKNOWN", ""},
		{v2TCP4, "10.0.0.1:1234", ""},
		{v2TLV, "10.0.0.1:1234", ""},
		{v2TCP6(), "[::1]:1234", ""},
		{v2Local, "LOCAL", ""},
		{"", "", ""},
		{"GET / HTTP/1.1\r\n", "", "G"},
		{"PRI * HTTP/2.0\r\n", "", "PRI"},
		{"PUT / HTTP/1.1\r\n", "", "PU"},
	} {
		r := strings.NewReader(c.in + "GET")
		if c.in == "" {
			r = strings.NewReader("")
		}
		source, rest, err := readProxyHeader(iotest.OneByteReader(r))
		if source != c.source || string(rest) != c.rest || err != nil && (err != io.EOF || c.in != "") {
			t.Errorf("%q: %q, %q, %v", c.in, source, rest, err)
		}
		if left, _ := io.ReadAll(r); c.source != "" && string(left) != "GET" {
			t.Errorf("%q: %q is left", c.in, left)
		}
	}
	for _, in := range []string{
		"PROXY \r\n", "PROXY TCP4\r\n", "PROXY TCP4 x y 1 2\r\n", "PROXY UDP4 10.0.0.1 10.0.0.2 1 2\r\n",
		"PROXY " + strings.Repeat("x", 200) + "\r\n", proxyV2 + "\x10\x11\x00\x00",
	} {
		if source, rest, err := readProxyHeader(strings.NewReader(in)); !errors.Is(err, errProxyHeader) || source != "" || rest != nil {
			t.Errorf("%q: %q, %q, %v", in, source, rest, err)
		}
	}
	for _, in := range []string{"PROXY TCP4 10.0.0.1 10.0.0.2 1234 443\r\n", v2TCP4} {
		for n := range len(in) {
			if source, _, err := readProxyHeader(strings.NewReader(in[:n])); err == nil || source != "" {
				t.Errorf("the first %d bytes of %q pass", n, in)
			}
		}
	}
}

func TestProxyHeaderIsSeen(t *testing.T) {
	for _, require := range []bool{false, true} {
		o := newOrigin(t, OriginConfig{RequireProxyHeader: require})
		conn := dialTCP(t, "tcp", o.Plain)
		_, _ = io.WriteString(conn, v2TCP4+"GET /headers HTTP/1.1\r\nHost: a\r\n\r\n") // a failure shows below
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var saw Saw
		if err := json.NewDecoder(res.Body).Decode(&saw); err != nil || saw.ProxyHeader != "10.0.0.1:1234" || o.Seen()[0].ProxyHeader != saw.ProxyHeader {
			t.Errorf("%v %+v", err, saw)
		}
		if _, _, err := try(t, newClientOf(t, o, nil), http.MethodGet, "http://"+o.Plain, nil); (err != nil) != require {
			t.Errorf("without a header, required: %v: %v", require, err)
		}
	}
}
