package tunnel

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
)

// Reading the head of a reply. maxHead bounds everything read before a tunnel is open, interim replies included.
const (
	maxHead   = 32 << 10
	firstRead = 4 << 10
)

// askHTTP asks the HTTP/1.1 proxy at the other end of conn for a tunnel to dest. behind is what was read beyond the
// reply: the first bytes of the tunnel.
func askHTTP(conn io.ReadWriter, hop *Hop, dest target) (behind []byte, err error) {
	if _, err := conn.Write(connectRequest(hop, dest)); err != nil {
		return nil, err
	}
	status, behind, err := readReply(conn)
	if err != nil {
		return nil, err
	}
	if status < 200 || status > 299 {
		return nil, refused(hop, status)
	}
	return behind, nil
}

func connectRequest(hop *Hop, dest target) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n", dest)
	if hop.Auth != nil {
		fmt.Fprintf(&b, "Proxy-Authorization: %s\r\n", basic(hop.Auth))
	}
	for _, name := range slices.Sorted(maps.Keys(hop.Header)) {
		for _, value := range hop.Header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func basic(auth *Auth) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(auth.Username+":"+auth.Password))
}

// refused is the failure that an answer to CONNECT other than 2xx is.
func refused(hop *Hop, status int) error {
	f := &failure{code: ProxyConnectRefused, status: status}
	if status == http.StatusProxyAuthRequired {
		f.code = ProxyAuthRequired
		if hop.Auth != nil || sends(hop.Header, "Proxy-Authorization") {
			f.code = ProxyAuthRefused
		}
	}
	return f
}

func sends(h http.Header, name string) bool {
	for field := range h {
		if http.CanonicalHeaderKey(field) == name {
			return true
		}
	}
	return false
}

// readReply reads the head of the reply to CONNECT, and skips interim ones. Its fields mean nothing: not even the
// ones that frame a body do, as a 2xx has none. Of a refusal only the status line is read. behind is what was read
// beyond the head.
func readReply(r io.Reader) (status int, behind []byte, err error) {
	h := headReader{r: r}
	for {
		if status, err = h.statusLine(); err != nil {
			return 0, nil, err
		}
		interim := status < 200 && status != http.StatusSwitchingProtocols
		if !interim && (status < 200 || status > 299) {
			return status, nil, nil
		}
		for {
			line, err := h.line()
			if err != nil {
				return 0, nil, err
			}
			if len(line) == 0 {
				break
			}
		}
		if !interim {
			return status, h.buf[h.pos:], nil
		}
	}
}

// headReader reads lines, remembering all it has read.
type headReader struct {
	r   io.Reader
	buf []byte
	pos int // where the next line starts
}

// statusLine reads "HTTP/1.x nnn" and any or no reason. It does not wait for a line's end where HTTP is out of the
// question.
func (h *headReader) statusLine() (int, error) {
	const version = "HTTP/1."
	for {
		begin := h.buf[h.pos:]
		if !bytes.HasPrefix(begin, []byte(version)[:min(len(begin), len(version))]) {
			return 0, fail(ProxyNotHTTP, notHTTP(begin))
		}
		if len(begin) >= len(version) {
			break
		}
		if err := h.more(); err != nil {
			return 0, err
		}
	}
	line, err := h.line()
	if err != nil {
		return 0, err
	}
	const digits = len(version) + len("1 ")
	if len(line) < digits+3 || len(line) > digits+3 && line[digits+3] != ' ' {
		return 0, malformedStatus()
	}
	if minor := line[len(version)]; minor < '0' || minor > '9' || line[digits-1] != ' ' {
		return 0, malformedStatus()
	}
	status := 0
	for _, c := range line[digits : digits+3] {
		if c < '0' || c > '9' {
			return 0, malformedStatus()
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 {
		return 0, malformedStatus()
	}
	return status, nil
}

// errMalformedStatus does not quote the line: a peer may send back what it was sent, credentials included.
var errMalformedStatus = errors.New("malformed status line")

func malformedStatus() error { return fail(ProxyReplyMalformed, errMalformedStatus) }

// line reads up to a line feed and returns what is before it and an optional carriage return.
func (h *headReader) line() ([]byte, error) {
	for seen := h.pos; ; {
		if i := bytes.IndexByte(h.buf[seen:], '\n'); i >= 0 {
			line := h.buf[h.pos : seen+i]
			h.pos = seen + i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		seen = len(h.buf)
		if err := h.more(); err != nil {
			return nil, err
		}
	}
}

// more reads once.
func (h *headReader) more() error {
	if len(h.buf) == maxHead {
		return fail(ProxyReplyTooLarge, fmt.Errorf("more than %d KiB before a tunnel was open", maxHead>>10))
	}
	if len(h.buf) == cap(h.buf) {
		grown := make([]byte, len(h.buf), min(max(firstRead, 2*cap(h.buf)), maxHead))
		copy(grown, h.buf)
		h.buf = grown
	}
	for range 100 {
		n, err := h.r.Read(h.buf[len(h.buf):cap(h.buf)])
		h.buf = h.buf[:len(h.buf)+n]
		if n > 0 {
			return nil // an error that came along comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// notHTTP says what the peer may be instead, from the first byte of its answer. Of that it quotes nothing, for the reason
// that errMalformedStatus has.
func notHTTP(begin []byte) error {
	switch begin[0] {
	case 0x15, 0x16:
		return errors.New("it answers in TLS: write https:// or h2://")
	case 4, 5:
		return errors.New("it answers like a SOCKS server: write socks5://")
	case 0:
		return errors.New("it answers like an HTTP/2 or SOCKS4 server, not in HTTP/1.1: write h2:// or socks5://")
	case '<':
		return errors.New("it answers with a document, not with an HTTP status")
	}
	return errors.New("its answer is not HTTP/1.1")
}

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
