package h1c

import (
	"bytes"
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// framing is how a response's body is delimited (RFC 9112 section 6.3).
type framing int8

const (
	noBody framing = iota
	byLength
	byChunks
	byClose
)

// message is a response as it came.
type message struct {
	http.Response
	framing framing
	last    bool // no response follows on the connection
}

// parseResponse reads the head of the response to a request with this method. What it returns shares no memory with
// head.
func parseResponse(head []byte, method string) (*message, error) {
	text := string(head)
	line, rest, _ := strings.Cut(text, "\n")
	m := new(message)
	if err := m.parseStatusLine(strings.TrimSuffix(line, "\r")); err != nil {
		return nil, err
	}
	header, err := parseFields(rest)
	if err != nil {
		return nil, err
	}
	m.Header = header
	fixCacheControl(header)
	if err := m.setFraming(method); err != nil {
		return nil, err
	}
	return m, nil
}

// parseStatusLine is RFC 9112 section 4. Spaces in front of the status are let pass, and so is a missing reason.
func (m *message) parseStatusLine(line string) error {
	version, status, ok := strings.Cut(line, " ")
	if !ok {
		return malformed("HTTP response")
	}
	if m.ProtoMajor, m.ProtoMinor, ok = http.ParseHTTPVersion(version); !ok || m.ProtoMajor != 1 {
		return malformed("HTTP version")
	}
	m.Proto = version
	m.Status = strings.TrimLeft(status, " ")
	code, _, _ := strings.Cut(m.Status, " ")
	if len(code) != 3 {
		return malformed("HTTP status code")
	}
	for _, c := range []byte(code) {
		if c < '0' || c > '9' {
			return malformed("HTTP status code")
		}
		m.StatusCode = 10*m.StatusCode + int(c-'0')
	}
	if m.StatusCode < 100 {
		return malformed("HTTP status code")
	}
	return nil
}

// parseFields reads the fields of a head or a trailer section up to and with its empty line. RFC 9112 section 5; a folded
// line is joined by one space, as section 5.2 allows. Values are parts of text.
func parseFields(text string) (http.Header, error) {
	lines := strings.Count(text, "\n") - 1
	h := make(http.Header, max(lines, 0))
	values := make([]string, max(lines, 0)) // of fields with one value each
	for {
		line, rest, _ := strings.Cut(text, "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return h, nil
		}
		if isBlank(line[0]) {
			return nil, malformed("MIME header")
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, malformed("MIME header")
		}
		if text = rest; text != "" && isBlank(text[0]) {
			value, text = unfold(value, text)
		}
		if name, ok = fieldName(name); !ok {
			return nil, malformed("MIME header: the name of a field")
		}
		value = trimBlanks(value)
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, malformed("MIME header: the value of a field")
		}
		if had := h[name]; had != nil {
			h[name] = append(had, value)
			continue
		}
		values[0] = value
		h[name] = values[:1:1]
		values = values[1:]
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func trimBlanks(s string) string {
	for s != "" && isBlank(s[0]) {
		s = s[1:]
	}
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// unfold joins a line with those that continue it.
func unfold(line, text string) (whole, rest string) {
	var b strings.Builder
	b.WriteString(trimBlanks(line))
	for text != "" && isBlank(text[0]) {
		line, text, _ = strings.Cut(text, "\n")
		b.WriteByte(' ')
		b.WriteString(trimBlanks(strings.TrimSuffix(line, "\r")))
	}
	return b.String(), text
}

// fieldName is a name in its canonical form. One with a space in it, which some servers have before the colon, means
// nothing, and stays as it is.
func fieldName(name string) (string, bool) {
	upper, canonical := true, true
	for i := range len(name) {
		c := name[i]
		switch {
		case c == ' ':
			return name, httpguts.ValidHeaderFieldName(strings.ReplaceAll(name, " ", ""))
		case upper && 'a' <= c && c <= 'z', !upper && 'A' <= c && c <= 'Z':
			canonical = false
		case !httpguts.IsTokenRune(rune(c)):
			return "", false
		}
		upper = c == '-'
	}
	if !canonical {
		name = textproto.CanonicalMIMEHeaderKey(name)
	}
	return name, name != ""
}

// fixCacheControl says in Cache-Control what a response of old says in Pragma (RFC 9111 section 5.4).
func fixCacheControl(h http.Header) {
	if p := h["Pragma"]; len(p) > 0 && p[0] == "no-cache" {
		if _, ok := h["Cache-Control"]; !ok {
			h["Cache-Control"] = []string{"no-cache"}
		}
	}
}

// setFraming decides how the body is delimited and takes the fields that say it out of the header. RFC 9112 section 6.
// It is strict where servers and proxies that disagree about it can be played off against each other.
func (m *message) setFraming(method string) error {
	m.persistence()
	chunked, err := m.takeChunked()
	if err != nil {
		return err
	}
	length, err := m.takeLength()
	if err != nil {
		return err
	}
	code := m.StatusCode
	bodiless := method == http.MethodHead || code < 200 || code == http.StatusNoContent || code == http.StatusNotModified
	switch {
	case method == http.MethodHead:
		m.ContentLength = length
	case bodiless:
	case chunked:
		if length >= 0 {
			m.Header.Del("Content-Length")
			m.last = true // two lengths: whatever follows is not to be trusted
		}
		m.ContentLength, m.framing = -1, byChunks
	case length > 0:
		m.ContentLength, m.framing = length, byLength
	case length < 0:
		m.ContentLength, m.framing = -1, byClose
		m.Close = true
	}
	if chunked {
		m.TransferEncoding = []string{"chunked"}
		if err := m.announceTrailer(); err != nil {
			return err
		}
	}
	m.last = m.last || m.Close || code < 200
	return nil
}

// persistence is RFC 9112 section 9.3.
func (m *message) persistence() {
	connection := m.Header["Connection"]
	m.Close = httpguts.HeaderValuesContainsToken(connection, "close")
	if m.ProtoMinor == 0 {
		m.Close = m.Close || !httpguts.HeaderValuesContainsToken(connection, "keep-alive")
	} else if m.Close {
		delete(m.Header, "Connection")
	}
}

// takeChunked takes Transfer-Encoding. No coding but chunked is known, and HTTP/1.0 has none.
func (m *message) takeChunked() (bool, error) {
	codings, ok := m.Header["Transfer-Encoding"]
	if !ok {
		return false, nil
	}
	delete(m.Header, "Transfer-Encoding")
	switch {
	case m.ProtoMinor == 0:
		m.last = true
		return false, nil
	case len(codings) != 1 || !strings.EqualFold(codings[0], "chunked"):
		return false, errors.New("unsupported transfer encoding")
	}
	return true, nil
}

// takeLength gives the Content-Length, or -1 if there is none. Several that agree become one.
func (m *message) takeLength() (int64, error) {
	lengths := m.Header["Content-Length"]
	if len(lengths) == 0 {
		return -1, nil
	}
	for _, other := range lengths[1:] {
		if other != lengths[0] {
			return 0, errors.New("more than one Content-Length")
		}
	}
	m.Header["Content-Length"] = lengths[:1]
	n, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil {
		return 0, malformed("Content-Length")
	}
	return int64(n), nil
}

// announceTrailer makes Trailer the keys of the response's trailer. RFC 9110 section 6.6.2.
func (m *message) announceTrailer() error {
	announced, ok := m.Header["Trailer"]
	if !ok {
		return nil
	}
	delete(m.Header, "Trailer")
	for _, list := range announced {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(textproto.TrimString(name))
			switch name {
			case "":
				continue
			case "Transfer-Encoding", "Trailer", "Content-Length":
				return errors.New("a field that frames the message is announced in the trailer")
			}
			if m.Trailer == nil {
				m.Trailer = make(http.Header)
			}
			m.Trailer[name] = nil
		}
	}
	return nil
}

// switches reports whether the connection changes to another protocol.
func (m *message) switches() bool {
	return m.StatusCode == http.StatusSwitchingProtocols && m.Header.Get("Upgrade") != "" &&
		httpguts.HeaderValuesContainsToken(m.Header["Connection"], "upgrade")
}

// trailerEnd finds the end of a trailer section: its empty line, or the line end with which it has no field.
func trailerEnd(b []byte) int {
	if bytes.HasPrefix(b, []byte("\r\n")) {
		return 2
	}
	if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
		return i + 4
	}
	return 0
}
