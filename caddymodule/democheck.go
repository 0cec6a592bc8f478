package caddymodule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// check runs every route of the demo and prints one line each. The error counts the routes that are not as they
// should be.
func (d *demo) check(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROUTE\tWAY\tPROTOCOL\tSTATUS\tBYTES\tSHA-256 EQUAL\tMS\t")
	failed := 0
	for _, r := range demoRoutes() {
		line, err := d.checkRoute(ctx, r)
		verdict := "ok"
		if err != nil {
			verdict = "FAILED: " + err.Error()
			failed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Path, r.Way, line, verdict)
	}
	page, err := d.checkPage(ctx)
	verdict := "ok"
	if err != nil {
		verdict = "FAILED: " + err.Error()
		failed++
	}
	fmt.Fprintf(w, "/\tdirect\t%s\t%s\n", page, verdict)
	if err := w.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d routes are not as they should be", failed, len(demoRoutes())+1)
	}
	return nil
}

// checkRoute runs one route. It looks at both ends: what the client got, what the origin saw and which proxy carried it.
func (d *demo) checkRoute(ctx context.Context, r demoRoute) (line string, err error) {
	d.origin.DropConns()
	carried, seen := 0, len(d.origin.Requests())
	if r.proxy != "" {
		carried = len(d.proxies[r.proxy].Seen())
	}
	start := time.Now()
	res, err := get(ctx, d.url+r.Path)
	if err != nil {
		return "-\t-\t-\t-\t-", err
	}
	defer res.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, res.Body)
	elapsed := time.Since(start)
	equal := "-"
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	if res.StatusCode != r.status {
		errs = append(errs, fmt.Errorf("status %d, want %d", res.StatusCode, r.status))
	}
	if r.bytes > 0 {
		if equal = "yes"; hex.EncodeToString(sum.Sum(nil)) != testbed.PageSum(r.bytes) {
			equal = "no"
			errs = append(errs, errors.New("the body is not what the origin sent"))
		}
	}
	proto := "-"
	if reqs := d.origin.Requests(); len(reqs) > seen {
		if proto = reqs[len(reqs)-1].Proto; proto != r.proto {
			errs = append(errs, fmt.Errorf("protocol %s, want %s", proto, r.proto))
		}
	} else {
		errs = append(errs, errors.New("the origin saw no request"))
	}
	if r.proxy != "" && len(d.proxies[r.proxy].Seen()) <= carried {
		errs = append(errs, fmt.Errorf("the %s proxy carried nothing", r.proxy))
	}
	if direct := d.origin.Direct(d.all()...); len(direct) > 0 {
		errs = append(errs, fmt.Errorf("the origin was reached directly from %s", direct[0].RemoteAddr))
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s\t%d", proto, res.StatusCode, n, equal, elapsed.Milliseconds()), errors.Join(errs...)
}

// checkPage runs the route of the page itself.
func (d *demo) checkPage(ctx context.Context) (line string, err error) {
	start := time.Now()
	res, err := get(ctx, d.url+"/")
	if err != nil {
		return "-\t-\t-\t-\t-", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d, want 200", res.StatusCode)
	}
	for _, r := range demoRoutes() {
		if link := strings.ReplaceAll(r.Path, "&", "&amp;"); err == nil && !strings.Contains(string(body), link) {
			err = fmt.Errorf("the page has no link to %s", r.Path)
		}
	}
	return fmt.Sprintf("%s\t%d\t%d\t-\t%d", "HTTP/1.1", res.StatusCode, len(body), time.Since(start).Milliseconds()), err
}

func (d *demo) all() []*testbed.Proxy {
	var all []*testbed.Proxy
	for _, p := range d.proxies {
		all = append(all, p)
	}
	return all
}

// get requests url without asking for a coding, so that the bytes are the route's own.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	return client.Do(req)
}
