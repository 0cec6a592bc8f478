package testbed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// bodySpec says which bytes a body has. It is comparable.
type bodySpec struct {
	n, seed int64
	codings string // in the order in which they are applied, separated by commas; empty: identity
	members int    // gzip members or zstd frames the body is cut into
	window  int    // of zstd; 0: the encoder's own
}

// parseBody reads the specification from a path value and a query.
func parseBody(n string, query url.Values, acceptEncoding []string) (bodySpec, error) {
	spec := bodySpec{members: 1}
	var err error
	if spec.n, err = ParseSize(n); err != nil {
		return spec, err
	}
	if s := query.Get("seed"); s != "" {
		if spec.seed, err = strconv.ParseInt(s, 10, 64); err != nil {
			return spec, fmt.Errorf("testbed: seed: %w", err)
		}
	}
	if s := query.Get("members"); s != "" {
		if spec.members, err = strconv.Atoi(s); err != nil || spec.members < 1 || spec.members > 1<<16 {
			return spec, fmt.Errorf("testbed: members %q is not a number from 1 to 65536", s)
		}
	}
	if s := query.Get("window"); s != "" {
		window, err := ParseSize(s)
		if err != nil || window < zstd.MinWindowSize || window > zstd.MaxWindowSize || window&(window-1) != 0 {
			return spec, fmt.Errorf("testbed: window %q is not a power of two from 1KiB to 512MiB", s)
		}
		spec.window = int(window)
	}
	spec.codings = query.Get("coding")
	switch spec.codings {
	case "auto":
		spec.codings = strings.Join(offered(acceptEncoding), ",")
	case "identity":
		spec.codings = ""
	}
	codings := spec.list()
	if len(codings) > 8 {
		return spec, fmt.Errorf("testbed: %d codings are more than 8", len(codings))
	}
	for _, coding := range codings {
		if coding != "x-gzip" && !slices.Contains(codingNames(), coding) {
			return spec, unknownCoding(coding)
		}
	}
	return spec, nil
}

func (s bodySpec) list() []string {
	if s.codings == "" {
		return nil
	}
	return strings.Split(s.codings, ",")
}

// contentEncoding is the header's value; empty: none.
func (s bodySpec) contentEncoding() string {
	names := s.list()
	for i, name := range names {
		names[i] = contentCoding(name)
	}
	return strings.Join(names, ", ")
}

// write writes the encoded body to w and returns the SHA-256 of the identity body. It ends early with ctx.
func (s bodySpec) write(ctx context.Context, w io.Writer) (sum string, err error) {
	hash := sha256.New()
	source := io.TeeReader(&ctxReader{ctx, SeededPageReader(s.n, s.seed)}, hash)
	each := s.n / int64(s.members)
	buf := make([]byte, 32<<10)
	for member := range s.members {
		e, err := newEncoders(s.list(), w, s.window)
		if err != nil {
			return "", err
		}
		part := io.LimitReader(source, each)
		if member == s.members-1 {
			part = source
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{e}, part, buf); err != nil {
			_ = e.Close() // its error is the same
			return "", err
		}
		if err := e.Close(); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// ctxReader fails when its context has ended.
type ctxReader struct {
	ctx context.Context
	io.Reader
}

func (r *ctxReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// rendered is what is known of a body before it is sent.
type rendered struct {
	length int64  // encoded
	sum    string // SHA-256 of the identity body
	body   []byte // encoded; nil: too long to be kept
}

const (
	keepBody   = 8 << 20  // identity bytes up to which a body is kept encoded
	keepBodies = 64 << 20 // encoded bytes kept in all
)

// bodyStore remembers bodies, so that what is measured is not the origin's compression. The zero value is ready.
type bodyStore struct {
	mu    sync.Mutex
	known map[bodySpec]*rendered
	held  int64
}

// get returns what is known of the body, after encoding it when it is asked for the first time.
func (b *bodyStore) get(ctx context.Context, spec bodySpec) (*rendered, error) {
	b.mu.Lock()
	r := b.known[spec]
	b.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r = new(rendered)
	var err error
	if spec.n <= keepBody {
		var buf bytes.Buffer
		r.sum, err = spec.write(ctx, &buf)
		r.body, r.length = buf.Bytes(), int64(buf.Len())
	} else {
		var count countWriter
		r.sum, err = spec.write(ctx, &count)
		r.length = int64(count)
	}
	if err != nil {
		return nil, err
	}
	b.keep(spec, r)
	return r, nil
}

// keep remembers a body. When too much would be kept, everything else is forgotten.
func (b *bodyStore) keep(spec bodySpec, r *rendered) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+int64(len(r.body)) > keepBodies || len(b.known) > maxRecords {
		b.known, b.held = nil, 0
	}
	if b.known == nil {
		b.known = make(map[bodySpec]*rendered)
	}
	b.known[spec] = r
	b.held += int64(len(r.body))
}

type countWriter int64

func (c *countWriter) Write(b []byte) (int, error) {
	*c += countWriter(len(b))
	return len(b), nil
}

// SumHeader is the header, and with chunked framing also the trailer, that carries the SHA-256 of a body's identity
// form in hexadecimal.
const SumHeader = "X-Sha256"

// bytes answers a page of a given length: see the index for the parameters.
func (o *Origin) bytes(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	spec, err := parseBody(r.PathValue("n"), query, r.Header["Accept-Encoding"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Etag", fmt.Sprintf("%q", fmt.Sprintf("%d-%d-%s", spec.n, spec.seed, strings.ReplaceAll(spec.codings, ",", "-"))))
	header.Set("Vary", "Accept-Encoding")
	if coding := spec.contentEncoding(); coding != "" {
		header.Set("Content-Encoding", coding)
	}
	if query.Has("no-transform") {
		header.Set("Cache-Control", "no-transform")
	}
	chunked := query.Get("framing") == "chunked"
	var known *rendered
	if spec.n <= keepBody || !chunked {
		if known, err = o.bodies.get(r.Context(), spec); err != nil {
			panic(http.ErrAbortHandler) // the client has gone
		}
		header.Set(SumHeader, known.sum)
	}
	if chunked {
		header.Set("Trailer", SumHeader)
		o.send(w, r, spec, known, true)
		return
	}
	if r.Header.Get("Range") != "" && known.body != nil {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(known.body))
		return
	}
	header.Set("Content-Length", strconv.FormatInt(known.length, 10))
	o.send(w, r, spec, known, false)
}

// send writes the body. With trailer, its length is not told and its sum follows.
func (o *Origin) send(w http.ResponseWriter, r *http.Request, spec bodySpec, known *rendered, trailer bool) {
	if r.Method == http.MethodHead {
		return
	}
	if trailer {
		_ = http.NewResponseController(w).Flush() // commits to chunked framing
	}
	var sum string
	var err error
	if known != nil && known.body != nil {
		sum = known.sum
		_, err = w.Write(known.body)
	} else {
		sum, err = spec.write(r.Context(), w)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if trailer {
		w.Header().Set(SumHeader, sum)
	}
}
