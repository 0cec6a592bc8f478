package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddytunnel/caddytunnel/body"
	"github.com/caddytunnel/caddytunnel/testbed"
)

// A tier carries a stream to its end.
type tier struct {
	name string
	run  func() (int64, error) // returns the bytes that came out
}

func runStreams(ctx context.Context, r *Report, o *Options) error {
	plan := o.plan.streams
	o.progress("streams of %s", sizeName(plan.size))
	tiers, err := streamTiers(plan)
	if err != nil {
		return err
	}
	fetchers := make([]fetcher, len(tiers))
	for i, t := range tiers {
		fetchers[i] = &tierFetcher{t, plan.size}
	}
	costs, err := alternate(ctx, plan.rounds, plan.sample, fetchers...)
	if err != nil {
		return err
	}
	t := Table{
		Title:   fmt.Sprintf("%s in chunks of %s", sizeName(plan.size), sizeName(int64(plan.chunk))),
		Columns: []string{"tier", "MB/s", "ns a chunk", "allocations", "time / io.Copy"},
		Note:    "MB/s are of what comes out. Decoders get the encoded stream in the same chunks; their chunks here are those that come out.",
	}
	var names []string
	var columns [][]float64
	chunks := float64(plan.size) / float64(plan.chunk)
	for i, tier := range tiers {
		walls := each(costs[i], wallOf)
		t.add(label("%s", tier.name), figure(each(costs[i], func(c cost) float64 { return float64(plan.size) / c.wall })),
			figure(each(costs[i], func(c cost) float64 { return c.wall * 1e3 / chunks })), figure(each(costs[i], allocsOf)),
			ratio(ratios(walls, each(costs[0], wallOf))))
		names, columns = append(names, tier.name), append(columns, walls)
	}
	r.suspectTwins("streams", names, columns)
	r.Tables = append(r.Tables, t)
	return nil
}

// streamTiers are io.Copy, io.Pipe and the tiers of package body, each with the same chunks.
func streamTiers(plan streamPlan) ([]tier, error) {
	var plain bytes.Buffer
	if err := testbed.Page(plan.size, &plain); err != nil {
		return nil, err
	}
	buf := make([]byte, bufBytes)
	drain := func(r io.Reader) (int64, error) {
		return io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, buf)
	}
	source := func(b []byte) *chunks { return &chunks{b, plan.chunk} }
	through := func(g *body.Guard, data []byte, coding string) func() (int64, error) {
		return func() (int64, error) {
			res := streamResponse(source(data), coding)
			if err := g.Response(res.Request, res); err != nil {
				return 0, err
			}
			defer res.Body.Close()
			return drain(res.Body)
		}
	}
	tiers := []tier{
		{"io.Copy", func() (int64, error) { return drain(source(plain.Bytes())) }},
		{"io.Copy again", func() (int64, error) { return drain(source(plain.Bytes())) }},
		{"io.Pipe, two goroutines", func() (int64, error) { return drain(piped(source(plain.Bytes()))) }},
		{"pass", through(&body.Guard{}, plain.Bytes(), "")},
		{"cap", through(&body.Guard{MaxBytes: 2 * plan.size}, plain.Bytes(), "")},
	}
	for _, coding := range plan.codings {
		encoded, err := encode(coding, plain.Bytes())
		if err != nil {
			return nil, err
		}
		alone, err := newDecoderFetcher(coding, nil, plan.size)
		if err != nil {
			return nil, err
		}
		tiers = append(tiers,
			tier{"decode " + coding, through(&body.Guard{MaxBytes: 2 * plan.size, Decode: []body.Coding{body.Coding(coding)}}, encoded, coding)},
			tier{coding + " decoder alone", func() (int64, error) {
				r, err := alone.reset(source(encoded))
				if err != nil {
					return 0, err
				}
				return drain(struct{ io.Reader }{r})
			}})
	}
	return tiers, nil
}

// streamResponse is a response of unknown length, as to a request that was sent with Accept-Encoding.
func streamResponse(r io.Reader, coding string) *http.Response {
	req := &http.Request{Method: http.MethodGet, Header: http.Header{"Accept-Encoding": {coding}}}
	res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(r), Request: req}
	if coding != "" {
		res.Header.Set("Content-Encoding", coding)
	}
	return res
}

// piped is r behind an io.Pipe, with a goroutine that ends with r.
func piped(r io.Reader) io.Reader {
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, r)
		out.CloseWithError(err)
	}()
	return in
}

// chunks hands out data in chunks of one size.
type chunks struct {
	data []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(c.size, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// encode puts data in one coding.
func encode(coding string, data []byte) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "deflate":
		w = zlib.NewWriter(&out)
	case "br":
		w = brotli.NewWriterLevel(&out, 4)
	case "zstd":
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		w = z
	default:
		return nil, fmt.Errorf("no encoder of %q", coding)
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// tierFetcher is one stream through a tier.
type tierFetcher struct {
	tier
	size int64
}

func (f *tierFetcher) fetch() error {
	n, err := f.run()
	if err == nil && n != f.size {
		err = fmt.Errorf("%s: %d bytes came out, not %d", f.name, n, f.size)
	}
	return err
}

func (f *tierFetcher) close() error { return nil }
