package caddymodule

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A leg is a protocol to the origin over a way. Between them the bodyLegs have every one of both.
type leg struct{ way, protocol string }

func (l leg) name() string { return l.protocol + "_" + l.way }

var bodyLegs = []leg{{"http", "h1"}, {"h2", "h1-cleartext"}, {"socks5", "h2"}, {"https", "h2c"}, {"direct", "h1-cleartext"}}

// legSites puts each leg below a path of its own, which begins with prefix.
func (b *bed) legSites(prefix, transportWords, proxyWords string) string {
	var site strings.Builder
	for _, l := range bodyLegs {
		fmt.Fprintf(&site, "handle_path /%s%s/* {\n%s\n}\n", prefix, l.name(), b.site(l.way, l.protocol, transportWords, proxyWords))
	}
	return site.String()
}

// extend replaces the origin by one with further handlers.
func (b *bed) extend(handlers map[string]http.Handler) {
	b.t.Helper()
	b.origin.Close()
	origin, err := testbed.NewOrigin(testbed.OriginConfig{Authority: b.origin.Authority(), Extra: handlers})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { origin.Close() })
	b.origin = origin
}

// A download is what a client got of a response.
type download struct {
	status int
	header http.Header
	body   []byte
	err    error // the message was not whole
}

// broken reports whether a message of status 200 was broken off with no more than most bytes of its body. Over HTTP/2 its head
// may have been lost.
func (d download) broken(most int) bool {
	return d.err != nil && (d.status == 200 || d.status == 0 && len(d.body) == 0) && len(d.body) <= most
}

func (d download) String() string {
	return fmt.Sprintf("status %d, %d bytes, error %v, fields %v", d.status, len(d.body), d.err, d.header)
}

// downloaders are the clients that download knows, and that are here.
func downloaders() []string {
	all := []string{"h1", "h2c"}
	if _, err := exec.LookPath("curl"); err == nil {
		all = append(all, "curl-h1", "curl-h2c")
	}
	return all
}

// someOf are two of the clients, others for each n, one of each protocol.
func someOf(clients []string, n int) []string {
	i := n % len(clients)
	return []string{clients[i], clients[i^1]}
}

// download has a client get a path. Fields are lines.
func (s *server) download(t *testing.T, client, path string, fields ...string) download {
	t.Helper()
	if protocol, ok := strings.CutPrefix(client, "curl-"); ok {
		return s.curl(t, protocol, path, fields)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Add(name, value)
	}
	c := s.client()
	if client == "h2c" {
		c = h2cClient()
		defer c.CloseIdleConnections()
	}
	res, err := c.Do(req)
	if err != nil && client == "h2c" {
		return download{err: err} // a reset can overtake the head
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	d := download{status: res.StatusCode, header: res.Header}
	d.body, d.err = io.ReadAll(res.Body)
	return d
}

// brokenOff are the exit codes of curl for a message that is not whole: a partial file, a failure to receive, and a
// stream that was reset.
var brokenOff = []int{18, 56, 92}

func (s *server) curl(t *testing.T, protocol, path string, fields []string) (d download) {
	t.Helper()
	dir := t.TempDir()
	head, body := filepath.Join(dir, "head"), filepath.Join(dir, "body")
	version := map[string]string{"h1": "--http1.1", "h2c": "--http2-prior-knowledge"}[protocol]
	args := []string{"-sS", version, "-D", head, "-o", body, "-w", "%{http_code}"}
	for _, field := range fields {
		args = append(args, "-H", field)
	}
	cmd := exec.CommandContext(t.Context(), "curl", append(args, s.url+path)...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		d.err = fmt.Errorf("%w: %s", err, &failure)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !slices.Contains(brokenOff, exit.ExitCode()) {
			t.Fatalf("%s: curl: %v", path, d.err)
		}
	}
	if d.status, err = strconv.Atoi(string(out)); err != nil {
		t.Fatalf("%s: curl says %q", path, out)
	}
	if d.status == 0 {
		return d
	}
	d.header = lastHead(t, readFile(t, head))
	if d.body, err = os.ReadFile(body); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return d
}

// lastHead parses the last of some heads: the others are interim.
func lastHead(t *testing.T, text string) http.Header {
	t.Helper()
	heads := strings.Split(strings.TrimSuffix(text, "\r\n\r\n"), "\r\n\r\n")
	_, fields, _ := strings.Cut(heads[len(heads)-1], "\r\n")
	r := textproto.NewReader(bufio.NewReader(strings.NewReader(fields + "\r\n\r\n")))
	h, err := r.ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return http.Header(h)
}

// bodyFailed checks that one body failed since the log had n of them, and with which code, and returns what was logged.
func (s *server) bodyFailed(t *testing.T, n int, code, target string) map[string]any {
	t.Helper()
	entries := s.logged("response body failed")[n:]
	if len(entries) != 1 {
		t.Fatalf("logged %d failures of bodies, want 1: %v", len(entries), entries)
	}
	e := entries[0]
	if e["code"] != code || e["stage"] != "body" || e["hop"] != "" || e["target"] != target || e["level"] != "warn" ||
		!strings.HasSuffix(fmt.Sprint(e["error"]), "["+code+"]") {
		t.Errorf("logged %v, want %s of %s", e, code, target)
	}
	return e
}
