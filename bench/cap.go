package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddytunnel/caddytunnel/body"
)

func runCap(ctx context.Context, r *Report, o *Options) (err error) {
	p, err := startPeers(ctx, o.Peers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	direct := newPath(p.ways()[0], p)
	o.progress("cap on and off")
	if err := compareCaps(ctx, r, direct, o.plan.cap); err != nil {
		return err
	}
	t := Table{
		Title: fmt.Sprintf("Decoding a page of %s, HTTP/1.1 over TLS, direct: µs for each page", sizeName(o.plan.cap.size)),
		Columns: []string{"coding", "encoded", "through h1c and body", "raw TLS read", "decoder alone", "through / (read + decoder)",
			"the same, CPU", "null"},
		Note: "The raw read is of the encoded bytes. The null is through / through in the same round.",
	}
	for _, coding := range o.plan.cap.codings {
		o.progress("decode %s", coding)
		row, err := compareDecoding(ctx, r, direct, o.plan.cap, coding)
		if err != nil {
			return fmt.Errorf("%s: %w", coding, err)
		}
		t.add(row...)
	}
	r.Tables = append(r.Tables, t)
	return nil
}

// guarded is a rung of h1c with a Guard on its bodies.
func guarded(guard *body.Guard) func(context.Context, *path, page) fetcher {
	open := openEngine("http/1.1")
	return func(ctx context.Context, p *path, want page) fetcher {
		f, ok := open(ctx, p, want).(*httpFetcher)
		if !ok {
			return nil
		}
		if guard.Decode != nil {
			f.req.Header.Del("Accept-Encoding")
			guard.Request(f.req.Header)
		}
		do := f.do
		f.do = func(req *http.Request) (*http.Response, error) {
			res, err := do(req)
			if err != nil {
				return nil, err
			}
			return res, guard.Response(req, res)
		}
		return f
	}
}

// compareCaps measures the same page without a cap, under one that it does not reach, and under the same once more.
func compareCaps(ctx context.Context, r *Report, p *path, plan capPlan) error {
	off, on := &body.Guard{}, &body.Guard{MaxBytes: 2 * plan.size}
	want := page{size: plan.size}
	tight := guarded(&body.Guard{MaxBytes: plan.size - 1})(ctx, p, want)
	err := tight.fetch()
	if _, capped := errors.AsType[*body.TooLargeError](err); !capped {
		err = errors.Join(errors.New("a cap below the page's size does not hold"), err)
	} else {
		err = nil
	}
	if err := errors.Join(err, tight.close()); err != nil {
		return err
	}
	costs, err := alternate(ctx, plan.rounds, plan.sample,
		guarded(off)(ctx, p, want), guarded(on)(ctx, p, want), guarded(on)(ctx, p, want))
	if err != nil {
		return err
	}
	t := Table{
		Title:   fmt.Sprintf("max_body_bytes, pages of %s, HTTP/1.1 over TLS, direct, %d rounds", sizeName(plan.size), plan.rounds),
		Columns: []string{"", "off µs", "on µs", "on / off", "null: on / on", "on / off less the null"},
	}
	var names []string
	var columns [][]float64
	for _, figureOf := range []struct {
		name string
		of   func(cost) float64
	}{{"time", wallOf}, {"CPU", cpuOf}} {
		offs, ons, again := each(costs[0], figureOf.of), each(costs[1], figureOf.of), each(costs[2], figureOf.of)
		capped, null := ratios(ons, offs), ratios(again, ons)
		t.add(label("%s", figureOf.name), figure(offs), figure(ons), ratio(capped), ratio(null),
			label("%.3f", 1+(median(capped)-1)-(median(null)-1)))
		if figureOf.name == "time" {
			names, columns = []string{"off", "on", "on again"}, [][]float64{offs, ons, again}
		}
	}
	r.suspectTwins("cap", names, columns)
	r.Tables = append(r.Tables, t)
	return nil
}

// compareDecoding measures a page in one coding: as it is read and decoded, read only, and decoded only.
func compareDecoding(ctx context.Context, r *Report, p *path, plan capPlan, coding string) ([]Cell, error) {
	want := page{plan.size, coding}
	raw, ok := openRawTLS((*path).bare)(ctx, p, want).(*rawFetcher)
	if !ok {
		return nil, errors.New("the raw rung is another")
	}
	encoded, err := fetchEncoded(ctx, p, want)
	if err != nil {
		return nil, err
	}
	alone, err := newDecoderFetcher(coding, encoded, plan.size)
	if err != nil {
		return nil, err
	}
	through := guarded(&body.Guard{MaxBytes: 2 * plan.size, Decode: []body.Coding{body.Coding(coding)}})
	costs, err := alternate(ctx, plan.rounds, plan.sample, through(ctx, p, want), raw, alone, through(ctx, p, want))
	if err != nil {
		return nil, err
	}
	sum := func(of func(cost) float64) []float64 {
		both := each(costs[1], of)
		for i, d := range each(costs[2], of) {
			both[i] += d
		}
		return both
	}
	walls := [][]float64{each(costs[0], wallOf), each(costs[1], wallOf), each(costs[2], wallOf), each(costs[3], wallOf)}
	r.suspectTwins("decode "+coding, []string{"through", "read", "decoder", "through again"}, walls)
	return []Cell{
		label("%s", coding), label("%d", len(encoded)), figure(walls[0]), figure(walls[1]), figure(walls[2]),
		ratio(ratios(walls[0], sum(wallOf))), ratio(ratios(each(costs[0], cpuOf), sum(cpuOf))), ratio(ratios(walls[3], walls[0])),
	}, nil
}

// fetchEncoded gets a page in its coding.
func fetchEncoded(ctx context.Context, p *path, want page) ([]byte, error) {
	t := p.transport("http/1.1", false)
	t.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.tls+want.path(), http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Encoding"); got != want.coding {
		return nil, fmt.Errorf("the page has the content coding %q, not %q", got, want.coding)
	}
	return io.ReadAll(res.Body)
}

// A decoderFetcher decodes the same bytes over and over, by the decoder that package body uses, from memory.
type decoderFetcher struct {
	encoded []byte
	size    int64
	reset   func(io.Reader) (io.Reader, error)
	buf     []byte
}

func newDecoderFetcher(coding string, encoded []byte, size int64) (*decoderFetcher, error) {
	f := &decoderFetcher{encoded: encoded, size: size, buf: make([]byte, bufBytes)}
	switch coding {
	case "gzip":
		z := new(gzip.Reader)
		f.reset = func(r io.Reader) (io.Reader, error) { return z, z.Reset(r) }
	case "deflate":
		f.reset = func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
	case "br":
		b := brotli.NewReader(nil)
		f.reset = func(r io.Reader) (io.Reader, error) { return b, b.Reset(r) }
	case "zstd":
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8*mib))
		if err != nil {
			return nil, err
		}
		f.reset = func(r io.Reader) (io.Reader, error) { return z, z.Reset(r) }
	default:
		return nil, fmt.Errorf("no decoder of %q", coding)
	}
	return f, nil
}

func (f *decoderFetcher) fetch() error {
	r, err := f.reset(bytes.NewReader(f.encoded))
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, f.buf)
	if err == nil && n != f.size {
		err = fmt.Errorf("decoded %d bytes, not %d", n, f.size)
	}
	return err
}

func (f *decoderFetcher) close() error { return nil }
