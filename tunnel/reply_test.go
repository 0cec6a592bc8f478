package tunnel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestConnectReply(t *testing.T) {
	const ok = `"HTTP/1.1 200 OK\r\n\r\n"`
	for name, tt := range map[string]struct {
		script string // behind the request
		first  string // what the tunnel begins with
	}{
		"plain":                            {script: `<- ` + ok},
		"C01_chunked":                      {`<- "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab"`, "4\r\nab"},
		"C01_length":                       {`<- "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcdef"`, "abcdef"},
		"C01_length_in_another_segment":    {"<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\n\"\n<- \"abcdef\"", "abcdef"},
		"C01_no_length":                    {`<- "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nabcdef"`, "abcdef"},
		"C01_two_lengths":                  {`<- "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcdef"`, "abcdef"},
		"C01_length_and_chunked":           {`<- "HTTP/1.1 200 OK\r\nContent-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"`, "0\r\n\r\n"},
		"C01_connection_close":             {`<- "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabcdef"`, "abcdef"},
		"C02_first_bytes_in_reply_segment": {`<- ` + ok + ` "SSH-2.0-o\r\n"`, "SSH-2.0-o\r\n"},
		"C02_first_bytes_with_the_head":    {"<- \"HTTP/1.1 200 OK\\r\\nX: \"\n<- \"y\\r\\n\\r\\nhello\"\n<- \" world\"", "hello world"},
		"C02_blank_lines_first":            {`<- ` + ok + ` "\r\n\r\nhello"`, "\r\n\r\nhello"},
		"C02_more_than_a_buffer":           {`<- ` + ok + ` 100000*"x"`, strings.Repeat("x", 100_000)},
		"C03_bytewise":                     {`<- dribble ` + ok + ` "SSH-2.0"`, "SSH-2.0"},
		"C03_last_line_feed_alone":         {"<- \"HTTP/1.1 200 OK\\r\\nX: y\\r\\n\\r\"\n<- \"\\n\"\n<- \"z\"", "z"},
		"C04_201":                          {script: `<- "HTTP/1.1 201 Created\r\n\r\n"`},
		"C04_204":                          {`<- "HTTP/1.1 204 No Content\r\n\r\nx"`, "x"},
		"C04_205":                          {`<- "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\nx"`, "x"},
		"C04_299":                          {script: `<- "HTTP/1.1 299 Odd\r\n\r\n"`},
		"C15_HTTP_1.0":                     {script: `<- "HTTP/1.0 200 Connection established\r\n\r\n"`},
		"C15_no_reason":                    {script: `<- "HTTP/1.1 200\r\n\r\n"`},
		"C15_empty_reason":                 {script: `<- "HTTP/1.1 200 \r\n\r\n"`},
		"C15_any_reason":                   {script: `<- "HTTP/1.1 200 403 Forbidden \xff\x00 \t\r\n\r\n"`},
		"V18_interim_then_200":             {`<- "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" ` + ok + ` "z"`, "z"},
		"V18_interim_bytewise":             {`<- dribble "HTTP/1.1 102 Processing\r\n\r\n" ` + ok + ` "z"`, "z"},
		"bare_line_feeds":                  {`<- "HTTP/1.1 200 OK\nX: y\n\nz"`, "z"},
		"any_field":                        {`<- "HTTP/1.1 200 OK\r\nno colon\r\n: x\r\n folded\r\n\r\nz"`, "z"},
		"head_of_32_KiB":                   {fmt.Sprintf("<- %q\n<- \"z\"", headOf(maxHead)), "z"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dialect := range []Dialect{HTTP, HTTPS} {
				hop, _ := listenScript(t, dialect, tt.script+"\neof\n-> eof")
				conn, err := dial(hop)
				if err != nil {
					t.Errorf("%s: %v", dialect, err)
					continue
				}
				defer conn.Close()
				if got, err := io.ReadAll(conn); err != nil || string(got) != tt.first {
					t.Errorf("%s: the tunnel begins with %.40q (%d bytes, %v), want %.40q", dialect, got, len(got), err, tt.first)
				}
			}
		})
	}
}

// TestConnectRefusal has proxies that open no tunnel, and keep the connection if they are not said to close it. Each is asked
// once, and has its connection closed without a further byte.
func TestConnectRefusal(t *testing.T) {
	const auth = `"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic realm=x\r\n"`
	for name, tt := range map[string]struct {
		script string
		code   Code
		status int
	}{
		"C06_302":                    {`<- "HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\n\r\n"`, ProxyConnectRefused, 302},
		"C06_403":                    {`<- "HTTP/1.1 403 Forbidden\r\nSet-Cookie: evil=b\r\nContent-Length: 4\r\n\r\nevil"`, ProxyConnectRefused, 403},
		"C06_403_without_end":        {`<- "HTTP/1.1 403 Forbidden\r\nSet-Cookie: evil=b"`, ProxyConnectRefused, 403},
		"C06_101":                    {`<- "HTTP/1.1 101 Switching Protocols\r\nUpgrade: evil\r\n\r\n"`, ProxyConnectRefused, 101},
		"C06_304":                    {`<- "HTTP/1.1 304 Not Modified\r\nETag: evil\r\n\r\n"`, ProxyConnectRefused, 304},
		"C06_after_an_interim_reply": {`<- "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 504 Timeout\r\n\r\n"`, ProxyConnectRefused, 504},
		"C07_401":                    {`<- "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=evil\r\n\r\n"`, ProxyConnectRefused, 401},
		"C08_407_cut":                {`<- ` + auth + "\nclose", ProxyAuthRequired, 407},
		"C09_407_length":             {`<- ` + auth + ` "Content-Length: 26\r\n\r\nHTTP/1.1 200 evil\r\n\r\nHTTP/"`, ProxyAuthRequired, 407},
		"C09_407_chunks":             {`<- ` + auth + ` "Transfer-Encoding: chunked\r\n\r\n15\r\nHTTP/1.1 200 evil\r\n\r\n\r\n0\r\n\r\n"`, ProxyAuthRequired, 407},
		"C09_407_length_and_chunks":  {`<- ` + auth + ` "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"`, ProxyAuthRequired, 407},
		"C09_407_body_to_come":       {`<- ` + auth + ` "Content-Length: 1000000\r\n\r\n"`, ProxyAuthRequired, 407},
		"C10_at_once":                {"close", ProxyClosed, 0},
		"C10_in_the_status":          {`<- "HTTP/1.1 20"` + "\nclose", ProxyClosed, 0},
		"C10_in_the_head":            {`<- "HTTP/1.1 200 OK\r\nX: y\r\n"` + "\nclose", ProxyClosed, 0},
		"C13_one_huge_field":         {"<- \"HTTP/1.1 200 OK\\r\\nX: \"\n<- forever 1000*\"x\"", ProxyReplyTooLarge, 0},
		"C13_many_fields":            {"<- \"HTTP/1.1 200 OK\\r\\n\"\n<- forever 100*\"X: y\\r\\n\"", ProxyReplyTooLarge, 0},
		"C13_many_interim_replies":   {`<- forever 100*"HTTP/1.1 100 Continue\r\n\r\n"`, ProxyReplyTooLarge, 0},
		"C13_huge_reason":            {"<- \"HTTP/1.1 407 \"\n<- forever 1000*\"x\"", ProxyReplyTooLarge, 0},
		"C13_one_byte_too_many":      {fmt.Sprintf("<- forever %q", headOf(maxHead+1)), ProxyReplyTooLarge, 0},
		"502":                        {`<- "HTTP/1.1 502 Bad Gateway\r\n\r\n"`, ProxyConnectRefused, 502},
		"999":                        {`<- "HTTP/1.1 999 \r\n\r\n"`, ProxyConnectRefused, 999},
		"two_digits":                 {`<- "HTTP/1.1 20\r\n\r\n"`, ProxyReplyMalformed, 0},
		"four_digits":                {`<- "HTTP/1.1 2000 OK\r\n\r\n"`, ProxyReplyMalformed, 0},
		"no_digits":                  {`<- "HTTP/1.1 OK!\r\n\r\n"`, ProxyReplyMalformed, 0},
		"sign":                       {`<- "HTTP/1.1 +20 OK\r\n\r\n"`, ProxyReplyMalformed, 0},
		"status_099":                 {`<- "HTTP/1.1 099 OK\r\n\r\n"`, ProxyReplyMalformed, 0},
		"minor_version":              {`<- "HTTP/1.x 200 OK\r\n\r\n"`, ProxyReplyMalformed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dialect := range []Dialect{HTTP, HTTPS} {
				end := "\n-> eof"
				if strings.HasSuffix(tt.script, "close") {
					end = ""
				}
				hop, peer := listenScript(t, dialect, tt.script+end)
				sockets := new(sockets)
				conn, err := (&Dialer{Hops: []Hop{hop}, Dial: sockets.dial, PullBytes: 1 << 10}).DialContext(context.Background(), "tcp", "origin.test:443")
				if e := wantCode(t, err, tt.code); e.Status != tt.status || conn != nil || e.Stage != StageConnect {
					t.Errorf("%s: status %d at %s, conn %v; want %d", dialect, e.Status, e.Stage, conn, tt.status)
				}
				if strings.Contains(err.Error(), "evil") {
					t.Errorf("%s: the error quotes the proxy: %v", dialect, err)
				}
				peer.Wait()
				if n := peer.Accepted(); n != 1 {
					t.Errorf("%s: %d connections", dialect, n)
				}
				if n := sockets.read.Load(); n > maxHead+20<<10 {
					t.Errorf("%s: %d bytes read", dialect, n)
				}
			}
		})
	}
}

// headOf is a reply's head of n bytes.
func headOf(n int) string {
	const begin, end = "HTTP/1.1 200 OK\r\nX: ", "\r\n\r\n"
	return begin + strings.Repeat("x", n-len(begin)-len(end)) + end
}

func TestReadReplyMakesNoFuss(t *testing.T) {
	const reply = "HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest"
	for name, r := range map[string]io.Reader{
		"error_with_the_bytes": iotest.DataErrReader(strings.NewReader(reply)),
		"empty_reads":          &lazy{r: strings.NewReader(reply)},
	} {
		status, behind, err := readReply(r)
		if status != 200 || err != nil || !bytes.HasPrefix([]byte("rest"), behind) {
			t.Errorf("%s: %d, %q, %v", name, status, behind, err)
		}
	}
	if _, _, err := readReply(nothing{}); err != io.ErrNoProgress {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

// lazy gives a byte every other read.
type lazy struct {
	r  io.Reader
	on bool
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.on = !l.on; l.on {
		return 0, nil
	}
	return l.r.Read(p[:1])
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
