package body

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxStacked bounds how many codings of one body are undone.
const maxStacked = 5

// digests are the fields whose values no longer fit once a coding is undone. They may come as trailers too.
var digests = [...]string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest"}

// undoable returns the codings of a response in the order they were applied, or nil when its bytes must stay.
func (g *Guard) undoable(req *http.Request, res *http.Response) []Coding {
	if res.StatusCode == http.StatusPartialContent || !g.mayDecode(req, res) {
		return nil
	}
	var codings []Coding
	for name := range elements(res.Header, "Content-Encoding") {
		if strings.EqualFold(name, "identity") {
			continue
		}
		c, err := ParseCoding(name)
		if err != nil || !slices.Contains(g.Decode, c) || len(codings) == maxStacked {
			return nil
		}
		codings = append(codings, c)
	}
	return codings
}

// mayDecode reports whether the answer to a request may be decoded, whatever codings it has.
func (g *Guard) mayDecode(req *http.Request, res *http.Response) bool {
	return len(g.Decode) > 0 && !noTransform(res.Header) && !noTransform(req.Header) && !wantsIdentity(req.Header)
}

// notModified edits the fields of a 304 as those of the 200 would be that it stands for: a cache puts them in their place
// (RFC 9111 section 4.3.4). A 304 seldom says which coding the 200 has. So an entity tag that the client does not hold as it is
// becomes weak: if the client holds the weak one, it had that from a decoded 200.
func (g *Guard) notModified(req *http.Request, res *http.Response) {
	if !g.mayDecode(req, res) {
		return
	}
	if res.Header.Get("Content-Encoding") == "" {
		if tag := res.Header.Get("ETag"); tag != "" && !slices.Contains(slices.Collect(elements(req.Header, "If-None-Match")), tag) {
			weaken(res.Header)
		}
		return
	}
	if g.undoable(req, res) != nil {
		editHeader(res)
		res.Header.Del("Content-Length")
	}
}

// editHeader makes the fields of a response fit its decoded body.
func editHeader(res *http.Response) {
	h := res.Header
	h.Del("Content-Encoding")
	h.Del("Accept-Ranges")
	dropDigests(h)
	dropDigests(res.Trailer)
	weaken(h)
	res.Uncompressed = true
	if res.ContentLength == 0 {
		return // nothing decodes to nothing: the length still fits
	}
	h.Del("Content-Length")
	res.ContentLength = -1
}

// weaken makes an entity tag weak: other bytes than the origin's, with the same meaning (RFC 9110 section 8.8.1).
func weaken(h http.Header) {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		h.Set("ETag", "W/"+tag)
	}
}

func dropDigests(h http.Header) {
	for _, name := range digests {
		h.Del(name)
	}
}

// wantsIdentity reports whether a request is to be answered without any content coding: it names a range of bytes,
// or its Accept-Encoding admits no coding.
func wantsIdentity(h http.Header) bool {
	if h.Get("Range") != "" {
		return true
	}
	if len(h["Accept-Encoding"]) == 0 {
		return false
	}
	for element := range elements(h, "Accept-Encoding") {
		name, params, _ := strings.Cut(element, ";")
		if strings.EqualFold(strings.TrimSpace(name), "identity") {
			continue
		}
		key, value, found := strings.Cut(params, "=")
		if found && strings.EqualFold(strings.TrimSpace(key), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && q <= 0 {
				continue
			}
		}
		return false
	}
	return true
}

// noTransform reports whether a message forbids intermediaries to change its content.
func noTransform(h http.Header) bool {
	for directive := range elements(h, "Cache-Control") {
		if strings.EqualFold(directive, "no-transform") {
			return true
		}
	}
	return false
}

// elements yields the members of a comma-separated field, over all its lines, trimmed and without empty ones.
func elements(h http.Header, name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range h[http.CanonicalHeaderKey(name)] {
			for element := range strings.SplitSeq(line, ",") {
				if element = strings.Trim(element, " \t"); element != "" && !yield(element) {
					return
				}
			}
		}
	}
}
