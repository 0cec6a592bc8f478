package h1c

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// scripted gives a client whose peer plays a script.
func (e engine) scripted(t *testing.T, cfg *Config, text string) client {
	t.Helper()
	near, far := tcp(t)
	return e.between(t, cfg, near, far, func(p *peer) { script.Play(t, far, text) })
}

// answering gives a client whose peer answers one request by reply, and then hears what else comes.
func (e engine) answering(t *testing.T, reply string) client {
	t.Helper()
	return e.scripted(t, nil, fmt.Sprintf("-> head\n<- %q\n-> rest", reply))
}

// seen is what the caller of a round trip sees.
type seen struct {
	status  int
	length  int64
	body    string
	trailer http.Header
	failed  bool // in the head or in the body
}

// see does a round trip.
func see(t *testing.T, c client, req *http.Request) (s seen, header http.Header) {
	t.Helper()
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		return seen{failed: true}, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return seen{res.StatusCode, res.ContentLength, string(b), res.Trailer, err != nil}, res.Header
}

func (s seen) equal(other seen) bool {
	return s.status == other.status && s.length == other.length && s.body == other.body && s.failed == other.failed &&
		maps.EqualFunc(s.trailer, other.trailer, slices.Equal)
}

const ok11 = "HTTP/1.1 200 OK\r\n"

func TestFraming(t *testing.T) {
	bad := seen{failed: true}
	chunked := ok11 + "Transfer-Encoding: chunked\r\n"
	for name, test := range map[string]struct {
		method string
		reply  string
		want   seen
		usable bool
		ours   *seen // where net/http sees it otherwise
	}{
		"length":               {"GET", ok11 + "Content-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, true, nil},
		"length_0":             {"GET", ok11 + "Content-Length: 0\r\n\r\n", seen{200, 0, "", nil, false}, true, nil},
		"length_twice":         {"GET", ok11 + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, true, nil},
		"lengths_that_differ":  {"GET", ok11 + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!", bad, false, nil},
		"length_list":          {"GET", ok11 + "Content-Length: 2, 2\r\n\r\nok", bad, false, nil},
		"length_negative":      {"GET", ok11 + "Content-Length: -2\r\n\r\nok", bad, false, nil},
		"length_plus":          {"GET", ok11 + "Content-Length: +2\r\n\r\nok", bad, false, nil},
		"length_hex":           {"GET", ok11 + "Content-Length: 0x2\r\n\r\nok", bad, false, nil},
		"length_empty":         {"GET", ok11 + "Content-Length:\r\n\r\nok", bad, false, nil},
		"length_huge":          {"GET", ok11 + "Content-Length: 9223372036854775808\r\n\r\nok", bad, false, nil},
		"bare_LF":              {"GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", seen{200, 2, "ok", nil, false}, true, nil},
		"no_reason":            {"GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, true, nil},
		"chunked":              {"GET", chunked + "\r\n2\r\nok\r\n3;x=y\r\nay!\r\n0\r\n\r\n", seen{200, -1, "okay!", nil, false}, true, nil},
		"chunked_upper_case":   {"GET", ok11 + "Transfer-Encoding: CHUNKED\r\n\r\nA \r\n0123456789\r\n00\r\n\r\n", seen{200, -1, "0123456789", nil, false}, true, nil},
		"chunked_and_length":   {"GET", chunked + "Content-Length: 5\r\n\r\n2\r\nok\r\n0\r\n\r\n", seen{200, -1, "ok", nil, false}, false, nil},
		"chunked_twice":        {"GET", chunked + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad, false, nil},
		"coding_unknown":       {"GET", ok11 + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", bad, false, nil},
		"coding_identity":      {"GET", ok11 + "Transfer-Encoding: identity\r\n\r\n", bad, false, nil},
		"chunked_in_1.0":       {"GET", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, false, nil},
		"chunk_size_bad":       {"GET", chunked + "\r\nxyz\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunk_size_empty":     {"GET", chunked + "\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunk_size_sign":      {"GET", chunked + "\r\n+2\r\nok\r\n0\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunk_size_underline": {"GET", chunked + "\r\n1_0\r\n0123456789abcdef\r\n0\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunk_size_too_large": {"GET", chunked + "\r\n10000000000000002\r\nok\r\n0\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunk_line_bare_LF":   {"GET", chunked + "\r\n2\nok\r\n0\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunk_line_with_CR":   {"GET", chunked + "\r\n2;\rx\r\nok\r\n0\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunk_longer":         {"GET", chunked + "\r\n2\r\nokay\r\n0\r\n\r\n", seen{200, -1, "ok", nil, true}, false, nil},
		"chunk_end_bare_LF":    {"GET", chunked + "\r\n2\r\nok\n0\r\n\r\n", seen{200, -1, "ok", nil, true}, false, nil},
		"chunk_line_too_long":  {"GET", chunked + "\r\n2;" + strings.Repeat("x", 5000) + "\r\nok\r\n0\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"chunks_of_nothing":    {"GET", chunked + "\r\n" + strings.Repeat("1;"+strings.Repeat("x", 4000)+"\r\ny\r\n", 6) + "0\r\n\r\n", seen{200, -1, "yyyy", nil, true}, false, nil},
		"trailer": {"GET", chunked + "Trailer: X-Sum, X-Absent\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nX-Late: 1\r\n\r\n",
			seen{200, -1, "ok", http.Header{"X-Sum": {"7"}, "X-Late": {"1"}, "X-Absent": nil}, false}, true, nil},
		"trailer_bad":      {"GET", chunked + "\r\n0\r\nX Sum\r\n\r\n", seen{200, -1, "", nil, true}, false, nil},
		"trailer_of_frame": {"GET", chunked + "Trailer: Content-Length\r\n\r\n0\r\n\r\n", bad, false, nil},
		// A trailer section may be as long as what a gRPC status has to say.
		"trailer_long": {"GET", chunked + "\r\n0\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", seen{200, -1, "", nil, true}, true,
			&seen{200, -1, "", http.Header{"X": {strings.Repeat("x", 20<<10)}}, false}},
		"trailer_endless":  {"GET", chunked + "\r\n0\r\n" + strings.Repeat("X: y\r\n", 20<<10), seen{200, -1, "", nil, true}, false, nil},
		"head_length":      {"HEAD", ok11 + "Content-Length: 5\r\n\r\n", seen{200, 5, "", nil, false}, true, nil},
		"head_chunked":     {"HEAD", chunked + "\r\n", seen{200, -1, "", nil, false}, true, nil},
		"head_bad_length":  {"HEAD", ok11 + "Content-Length: x\r\n\r\n", bad, false, nil},
		"status_204":       {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", seen{204, 0, "", nil, false}, true, nil},
		"status_304":       {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", seen{304, 0, "", nil, false}, true, nil},
		"status_304_chunk": {"GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", seen{304, 0, "", nil, false}, true, nil},
		"close":            {"GET", ok11 + "Connection: close\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, false, nil},
		"1.0":              {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, false, nil},
		"1.0_kept":         {"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, true, nil},
		// Whatever speaks another major version does not speak this protocol.
		"2.0":          {"GET", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, false, &bad},
		"0.9":          {"GET", "HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok", seen{200, 2, "ok", nil, false}, false, &bad},
		"version_odd":  {"GET", "HTTP/1.10 200 OK\r\n\r\n", bad, false, nil},
		"status_short": {"GET", "HTTP/1.1 20 OK\r\n\r\n", bad, false, nil},
		"status_word":  {"GET", "HTTP/1.1 abc OK\r\n\r\n", bad, false, nil},
		// A status code is three digits (RFC 9110 section 15), and a server cannot send others on.
		"status_sign":  {"GET", "HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nok", seen{20, 2, "ok", nil, false}, false, &bad},
		"status_099":   {"GET", "HTTP/1.1 099 No\r\nContent-Length: 2\r\n\r\nok", seen{99, 2, "ok", nil, false}, false, &bad},
		"no_status":    {"GET", "HTTP/1.1\r\n\r\n", bad, false, nil},
		"not_HTTP":     {"GET", "SSH-2.0-OpenSSH\r\n", bad, false, nil},
		"blank_first":  {"GET", "\r\n" + ok11 + "Content-Length: 0\r\n\r\n", bad, false, nil},
		"no_colon":     {"GET", ok11 + "Content-Length\r\n\r\n", bad, false, nil},
		"name_empty":   {"GET", ok11 + ": x\r\n\r\n", bad, false, nil},
		"name_bad":     {"GET", ok11 + "X(): x\r\n\r\n", bad, false, nil},
		"value_NUL":    {"GET", ok11 + "X: a\x00b\r\n\r\n", bad, false, nil},
		"value_CR":     {"GET", ok11 + "X: a\rb\r\n\r\n", bad, false, nil},
		"fold_first":   {"GET", ok11 + " X: a\r\n\r\n", bad, false, nil},
		"unsent_frame": {"GET", ok11 + "Content-Length : 2\r\nContent-Length: 3\r\n\r\nok!", seen{200, 3, "ok!", nil, false}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e engine) {
				c := e.answering(t, test.reply)
				req := get(t, "/")
				req.Method = test.method
				got, _ := see(t, c, req)
				want := test.want
				if e.isOwn() && test.ours != nil {
					want = *test.ours
				}
				if !got.equal(want) {
					t.Errorf("saw %+v, want %+v", got, want)
				}
				if usable := c.Err() == nil && c.InFlight() == 0; e.isOwn() && usable != test.usable {
					t.Errorf("usable afterwards: %v", usable)
				}
			})
		})
	}
}

func TestHeaders(t *testing.T) {
	for name, test := range map[string]struct {
		fields string
		want   http.Header
	}{
		"none":          {"", http.Header{}},
		"canonical":     {"content-TYPE: a\r\nX_y-z: b\r\n", http.Header{"Content-Type": {"a"}, "X_y-Z": {"b"}}},
		"several":       {"A: 1\r\nB: 2\r\na: 3\r\nA: \r\n", http.Header{"A": {"1", "3", ""}, "B": {"2"}}},
		"blanks":        {"A: \t 1 2\t \r\nB:\r\n", http.Header{"A": {"1 2"}, "B": {""}}},
		"folded":        {"A: 1\r\n  2\r\n\t3\r\nB: 4\r\n", http.Header{"A": {"1 2 3"}, "B": {"4"}}},
		"obs_text":      {"A: \xe4\r\n", http.Header{"A": {"\xe4"}}},
		"pragma":        {"Pragma: no-cache\r\n", http.Header{"Pragma": {"no-cache"}, "Cache-Control": {"no-cache"}}},
		"space_in_name": {"A B: 1\r\nC : 2\r\n", http.Header{"A B": {"1"}, "C ": {"2"}}},
		"many":          {strings.Repeat("X: y\r\n", 2000), http.Header{"X": slices.Repeat([]string{"y"}, 2000)}},
		"of_frame":      {"Trailer: X\r\nConnection: close\r\n", http.Header{"Trailer": {"X"}}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e engine) {
				c := e.answering(t, ok11+test.fields+"Content-Length: 0\r\n\r\n")
				got, header := see(t, c, get(t, "/"))
				test.want["Content-Length"] = []string{"0"}
				if got.status != 200 || !maps.EqualFunc(header, test.want, slices.Equal) {
					t.Errorf("%d %q, want %q", got.status, header, test.want)
				}
			})
		})
	}
}

// A head is the same however it comes in pieces.
func TestDribbled(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.scripted(t, nil, `
			-> head
			<- dribble "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: 1\r\n 2\r\n\r\n"
			<- dribble "4\r\nbody\r\n0\r\nT: 1\r\n\r\n"
			-> head
			<- dribble "HTTP/1.1 200 OK\nContent-Length: 4\n\nbody"
			-> rest`)
		for _, want := range []seen{{200, -1, "body", http.Header{"T": {"1"}}, false}, {200, 4, "body", nil, false}} {
			if got, _ := see(t, c, get(t, "/")); !got.equal(want) {
				t.Errorf("saw %+v, want %+v", got, want)
			}
		}
	})
}

func TestHeadLimit(t *testing.T) {
	for name, test := range map[string]struct {
		reply  string
		failed bool
	}{
		"exactly":  {ok11 + "Content-Length: 0\r\nX: " + strings.Repeat("x", 2000-len(ok11)-len("Content-Length: 0\r\nX: \r\n\r\n")) + "\r\n\r\n", false},
		"one_more": {ok11 + "Content-Length: 0\r\nX: " + strings.Repeat("x", 2001-len(ok11)-len("Content-Length: 0\r\nX: \r\n\r\n")) + "\r\n\r\n", true},
		"endless":  {ok11 + strings.Repeat("X: y\r\n", 1000), true},
		"a_line":   {ok11 + "X: " + strings.Repeat("y", 5000), true},
		"interim":  {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100) + ok11 + "Content-Length: 0\r\n\r\n", true},
		"the_body": {ok11 + "Content-Length: 10000\r\n\r\n" + strings.Repeat("x", 10000), false},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e engine) {
				c := e.scripted(t, &Config{MaxResponseHeader: 2000}, fmt.Sprintf("-> head\n<- %q\n-> rest", test.reply))
				if got, _ := see(t, c, get(t, "/")); got.failed != test.failed {
					t.Errorf("saw %+v", got)
				}
			})
		})
	}
}
