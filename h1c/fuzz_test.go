package h1c

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// canned is a conn whose peer answers the first write by data, in pieces, and closes.
type canned struct {
	data   []byte
	piece  int
	asked  chan struct{} // closed by the first write
	closed chan struct{}
	did    bool
}

func (c *canned) Read(p []byte) (int, error) {
	select {
	case <-c.asked:
	case <-c.closed:
		return 0, net.ErrClosed
	}
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.data)
	c.data = c.data[n:]
	return n, nil
}

func (c *canned) Write(p []byte) (int, error) {
	if !c.did {
		c.did = true
		close(c.asked)
	}
	return len(p), nil
}

func (c *canned) Close() error {
	close(c.closed)
	return nil
}

func (c *canned) LocalAddr() net.Addr              { return nil }
func (c *canned) RemoteAddr() net.Addr             { return nil }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// outcome is all that the caller of a round trip sees.
type outcome struct {
	seen
	interim  []int
	proto    string
	reason   string
	header   http.Header
	closing  bool
	codings  []string
	headless bool // it failed before there was a head
	stream   bool // the body can be written to
}

func look(t *testing.T, e engine, method string, data []byte, piece, read int) (o outcome) {
	conn := &canned{data: bytes.Clone(data), piece: piece, asked: make(chan struct{}), closed: make(chan struct{})}
	c, err := e.make(conn, &Config{MaxResponseHeader: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := get(t, "/")
	req.Method = method
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			o.interim = append(o.interim, code)
			return nil
		},
	}))
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		o.failed, o.headless = true, true
		return o
	}
	defer res.Body.Close()
	_, o.stream = res.Body.(io.Writer)
	o.status, o.length, o.proto, o.reason, o.closing, o.codings = res.StatusCode, res.ContentLength, res.Proto, res.Status, res.Close, res.TransferEncoding
	o.header = res.Header
	var b []byte
	buf := make([]byte, read)
	for err == nil {
		var n int
		n, err = res.Body.Read(buf)
		b = append(b, buf[:n]...)
	}
	if again, err2 := res.Body.Read(buf); !o.stream && (again != 0 || err2 == nil) {
		t.Errorf("%s: after %v a read gives %d, %v", e.name, err, again, err2)
	}
	o.failed, o.body, o.trailer = err != io.EOF, string(b), res.Trailer
	return o
}

// FuzzResponse gives both engines the same bytes. What they see is the same, but for what this engine does not take and
// net/http's does.
func FuzzResponse(f *testing.F) {
	chunked := ok11 + "Transfer-Encoding: chunked\r\n"
	for _, seed := range []string{
		ok11 + "Content-Length: 2\r\n\r\nok", ok11 + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nokay",
		ok11 + "\r\nuntil close", "HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 1\n\nx",
		chunked + "Trailer: A\r\n\r\n2\r\nok\r\n0\r\nA: 1\r\nB: 2\r\n\r\n", chunked + "\r\n3;x=y\r\nabc\r\n0\r\n\r\nsurplus",
		chunked + "Content-Length: 5\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n" + ok11 + "Content-Length: 0\r\n\r\n",
		"HTTP/1.1 103 Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello",
		ok11 + "A: 1\r\n folded\r\n\tmore\r\nB : 2\r\nPragma: no-cache\r\nConnection: close\r\n\r\nx",
	} {
		f.Add([]byte(seed), uint8(0), uint16(8), uint16(100))
		f.Add([]byte(seed), uint8(1), uint16(0), uint16(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, method uint8, piece, read uint16) {
		m := []string{"GET", "HEAD", "POST"}[method%3]
		ours := look(t, own, m, data, int(piece)+1, int(read)+1)
		theirs := look(t, engines[1], m, data, int(piece)+1, int(read)+1)
		if stricter(data, ours, theirs) {
			return
		}
		trimFolds(theirs.header)
		trimFolds(theirs.trailer)
		same := ours.status == theirs.status && ours.length == theirs.length && ours.failed == theirs.failed &&
			ours.proto == theirs.proto && ours.reason == theirs.reason && ours.closing == theirs.closing &&
			ours.stream == theirs.stream && slices.Equal(ours.codings, theirs.codings) &&
			slices.Equal(ours.interim, theirs.interim) &&
			maps.EqualFunc(ours.header, theirs.header, slices.Equal)
		if same && ours.failed {
			// How much comes before a failure depends on how it is read.
			same = strings.HasPrefix(ours.body, theirs.body) || strings.HasPrefix(theirs.body, ours.body)
		} else if same {
			same = ours.body == theirs.body && maps.EqualFunc(ours.trailer, theirs.trailer, slices.Equal)
		}
		if !same {
			t.Errorf("%s %q\n     ours %+v\nnet/http %+v", m, data, ours, theirs)
		}
	})
}

// trimFolds takes away the blanks that net/http leaves behind a folded value that ends in an empty line.
func trimFolds(h http.Header) {
	for _, values := range h {
		for i, v := range values {
			values[i] = trimBlanks(v)
		}
	}
}

// stricter tells what only this engine refuses: versions that are not HTTP/1.x, codes that are not three digits from 100
// on, in the final or an interim response, line ends without CR in a trailer section, and sizes of a chunk that no
// length can have. What it takes and net/http's engine does not is a trailer section that is larger than the buffer.
func stricter(data []byte, ours, theirs outcome) bool {
	switch {
	case ours.headless && !theirs.headless:
		for line := range bytes.Lines(data) {
			if bytes.HasPrefix(line, []byte("HTTP/")) && !usualStatus.Match(line) {
				return true
			}
		}
	case ours.headless && len(ours.interim) < len(theirs.interim):
		return true
	case ours.failed && !theirs.failed && slices.Equal(theirs.codings, []string{"chunked"}):
		return bytes.Contains(data, []byte("0\r\n\n")) || bytes.Contains(data, []byte("\n\n"))
	case !ours.failed && theirs.failed && ours.status == theirs.status:
		return slices.Equal(ours.codings, []string{"chunked"}) && len(data) > 4<<10
	}
	return false
}

var usualStatus = regexp.MustCompile(`^HTTP/1\.[0-9] +[1-9][0-9][0-9]( |\r?\n|$)`)
