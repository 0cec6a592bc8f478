package h1c

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// requestHead is how a request is sent: the fields that its head has besides those of its header.
type requestHead struct {
	req     *http.Request
	method  string
	target  string
	host    string
	length  int64    // of the body; negative: unknown, it is sent in chunks
	trailer []string // names of the trailer's fields, which follow the last chunk
	expects bool     // "100 Continue", before the body
	last    bool     // no request follows on the connection
}

// prepare makes h the head of req, which it checks. An error means that req can be sent nowhere. RFC 9112 sections 3
// and 6, RFC 9110 section 5.
func (h *requestHead) prepare(req *http.Request) error {
	h.req, h.method, h.last = req, req.Method, req.Close
	if h.method == "" {
		h.method = http.MethodGet
	}
	switch {
	case req.URL == nil:
		return errors.New("it has no URL")
	case h.method == http.MethodConnect:
		return errors.New("CONNECT is no request to an origin")
	case !httpguts.ValidHeaderFieldName(h.method): // a token, too
		return fmt.Errorf("invalid method %q", h.method)
	}
	if err := h.setTarget(); err != nil {
		return err
	}
	if err := checkFields("field", req.Header); err != nil {
		return err
	}
	if err := checkFields("trailer field", req.Trailer); err != nil {
		return err
	}
	if err := h.setFraming(); err != nil {
		return err
	}
	h.last = h.last || httpguts.HeaderValuesContainsToken(req.Header["Connection"], "close")
	h.expects = h.length != 0 && httpguts.HeaderValuesContainsToken(req.Header["Expect"], "100-continue")
	return nil
}

// setTarget sets the request target, in origin form, and the host. A host that would not be a valid field is left
// empty, and what is not ASCII goes in its ASCII form.
func (h *requestHead) setTarget() (err error) {
	host := h.req.Host
	if host == "" {
		host = h.req.URL.Host
	}
	if host == "" {
		return errors.New("it has no host")
	}
	if host, err = httpguts.PunycodeHostPort(host); err != nil {
		return err
	}
	if httpguts.ValidHostHeader(host) {
		h.host = withoutZone(host)
	}
	h.target = h.req.URL.RequestURI()
	if strings.ContainsFunc(h.target, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("a control character in its URL")
	}
	return nil
}

// withoutZone removes the zone of an IPv6 address (RFC 6874 section 1).
func withoutZone(host string) string {
	end := strings.LastIndexByte(host, ']')
	if end < 0 || host[0] != '[' {
		return host
	}
	if zone := strings.LastIndexByte(host[:end], '%'); zone >= 0 {
		return host[:zone] + host[end:]
	}
	return host
}

// checkFields does not name values, which may be secrets.
func checkFields(what string, h http.Header) error {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("invalid %s name %q", what, name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("invalid value of %s %q", what, name)
			}
		}
	}
	return nil
}

// setFraming decides how the body is delimited.
func (h *requestHead) setFraming() error {
	req := h.req
	none := req.Body == nil || req.Body == http.NoBody
	switch {
	case none && req.ContentLength != 0 && req.Body == nil:
		return fmt.Errorf("it has a length of %d and no body", req.ContentLength)
	case none:
		return nil
	case req.ContentLength > 0 && !slices.Equal(req.TransferEncoding, []string{"chunked"}):
		h.length = req.ContentLength
		return nil
	}
	h.length = -1
	for name := range req.Trailer {
		name = http.CanonicalHeaderKey(name)
		switch name {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return fmt.Errorf("invalid name %q in its trailer", name)
		}
		h.trailer = append(h.trailer, name)
	}
	slices.Sort(h.trailer)
	return nil
}

// mayBeEmpty reports that the body has to be looked at before the head is sent, as a body of unknown length that turns
// out to be empty is none: chunks without data confuse servers where a body is unusual.
func (h *requestHead) mayBeEmpty() bool {
	if h.length >= 0 || h.expects || len(h.req.TransferEncoding) > 0 {
		return false
	}
	switch h.method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions, "PROPFIND", "SEARCH":
		return true
	}
	return false
}

// append appends the head as it is sent.
func (h *requestHead) append(b []byte, trace *httptrace.ClientTrace) []byte {
	f := fieldWriter{b: b}
	if trace != nil {
		f.wrote = trace.WroteHeaderField
	}
	f.b = append(f.b, h.method...)
	f.b = append(f.b, ' ')
	f.b = append(f.b, h.target...)
	f.b = append(f.b, " HTTP/1.1\r\n"...)
	f.field("Host", h.host)
	if agent := h.req.Header["User-Agent"]; len(agent) > 0 && agent[0] != "" {
		f.field("User-Agent", textproto.TrimString(agent[0]))
	}
	if h.req.Close && !httpguts.HeaderValuesContainsToken(h.req.Header["Connection"], "close") {
		f.field("Connection", "close")
	}
	switch {
	case h.length < 0:
		f.field("Transfer-Encoding", "chunked")
	case h.length > 0 || h.wantsLength():
		f.field("Content-Length", strconv.FormatInt(h.length, 10))
	}
	if len(h.trailer) > 0 {
		f.field("Trailer", strings.Join(h.trailer, ","))
	}
	f.fields(h.req.Header)
	return append(f.b, "\r\n"...)
}

// wantsLength reports whether a request without a body says so.
func (h *requestHead) wantsLength() bool {
	switch h.method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	case http.MethodGet, http.MethodHead:
		return false
	}
	return h.req.Body != nil && slices.Equal(h.req.TransferEncoding, []string{"identity"})
}

// fieldWriter appends fields.
type fieldWriter struct {
	b     []byte
	wrote func(name string, values []string) // nil: nobody is told
}

func (f *fieldWriter) field(name, value string) {
	f.line(name, value)
	if f.wrote != nil {
		f.wrote(name, []string{value})
	}
}

func (f *fieldWriter) line(name, value string) {
	f.b = append(f.b, name...)
	f.b = append(f.b, ": "...)
	f.b = append(f.b, value...)
	f.b = append(f.b, "\r\n"...)
}

// fields appends those of a header that the engine does not set itself, in the order of their names.
func (f *fieldWriter) fields(h http.Header) {
	var some [24]string
	names := some[:0]
	for name := range h {
		switch name {
		case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			f.line(name, textproto.TrimString(value))
		}
		if f.wrote != nil {
			f.wrote(name, h[name])
		}
	}
}

var newlines = strings.NewReplacer("\n", " ", "\r", " ")

// appendTrailer appends the trailer's fields, which nobody has checked: they were set while the body was read.
func appendTrailer(b []byte, trailer http.Header) []byte {
	f := fieldWriter{b: b}
	names := make([]string, 0, len(trailer))
	for name := range trailer {
		if httpguts.ValidHeaderFieldName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range trailer[name] {
			f.line(name, textproto.TrimString(newlines.Replace(value)))
		}
	}
	return f.b
}
