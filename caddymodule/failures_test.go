package caddymodule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// failureSite is a site's body with one path for each failure.
func failureSite(b *bed, rows []failure, dns string) string {
	var site strings.Builder
	for i, row := range rows {
		protocol := bedProtocols[i%len(bedProtocols)]
		upstream, words := b.upstream(protocol)
		fmt.Fprintf(&site, "handle_path /%s/* {\nreverse_proxy %s {\ntransport tunnel {\nvia {\nproxy %s %s {\n%s}\n}\ndial_timeout 150ms\nresolvers %s\n%s\n}\n}\n}\n",
			row.name, upstream, row.name, row.url, row.words, dns, words)
	}
	return site.String()
}

// TestProxyFailures sends requests through every kind of proxy that fails, and looks at what the client, the origin,
// the proxy and the log get of it.
func TestProxyFailures(t *testing.T) {
	b := newBed(t)
	rows := b.failures()
	s := startGuarded(t, failureSite(b, rows, startDNS(t)))
	t.Run("proxies", func(t *testing.T) {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				if row.status == http.StatusGatewayTimeout {
					t.Parallel() // it mostly waits
				}
				var both sync.WaitGroup
				for _, method := range []string{"GET", "POST"} {
					both.Go(func() { assertFailure(t, b, s, row, method) })
				}
				both.Wait()
				if row.attempts != nil {
					if n := row.attempts(); n != 2 {
						t.Errorf("the proxy was asked %d times for two requests", n)
					}
				}
			})
		}
	})
	if n := b.origin.Accepted(); n != 0 {
		t.Errorf("the origin accepted %d connections", n)
	}
	if entries := s.failures(); len(entries) != 2*len(rows) {
		t.Errorf("%d failures logged for %d requests", len(entries), 2*len(rows))
	}
}

func assertFailure(t *testing.T, b *bed, s *server, row failure, method string) {
	t.Helper()
	var body io.Reader
	if method == "POST" {
		body = testbed.PageReader(100_000)
	}
	path := "/" + row.name + "/bytes/10"
	res, got, err := s.do(method, path, body, nil)
	if err != nil {
		t.Errorf("%s: %v", method, err)
		return
	}
	if res.StatusCode != row.status {
		t.Errorf("%s: status %d, want %d", method, res.StatusCode, row.status)
	}
	assertNothingOfProxy(t, res, got)
	assertLogged(t, s, row, method)
	if n := b.origin.Accepted(); n != 0 {
		t.Errorf("%s: the origin accepted a connection", method)
	}
}

// assertNothingOfProxy checks that a failed request's response is Caddy's own.
func assertNothingOfProxy(t *testing.T, res *http.Response, body []byte) {
	t.Helper()
	if len(body) > 0 {
		t.Errorf("the client got a body: %q", body)
	}
	for name := range res.Header {
		switch name {
		case "Server", "Date", "Content-Length", "Connection":
		default:
			t.Errorf("the client got %s: %q", name, res.Header[name])
		}
	}
	var all bytes.Buffer
	if err := res.Header.Write(&all); err != nil {
		t.Error(err)
	}
	if strings.Contains(strings.ToLower(all.String()), "leak") {
		t.Errorf("the proxy's answer reached the client:\n%s", all.String())
	}
}

// failures returns the log entries of failed requests.
func (s *server) failures() []map[string]any {
	var out []map[string]any
	for line := range strings.Lines(s.logs()) {
		var entry map[string]any
		if strings.Contains(line, `"request failed"`) && json.Unmarshal([]byte(line), &entry) == nil {
			out = append(out, entry)
		}
	}
	return out
}

// assertLogged checks the last entry of the row's proxy.
func assertLogged(t *testing.T, s *server, row failure, method string) {
	t.Helper()
	var entry map[string]any
	for _, e := range s.failures() {
		if e["hop"] == row.name && e["method"] == method {
			entry = e
		}
	}
	if entry == nil {
		t.Errorf("%s: no failure of this proxy is logged", method)
		return
	}
	if entry["level"] != "warn" || entry["code"] != row.code || entry["stage"] != row.stage || entry["status"] != float64(row.status) {
		t.Errorf("%s: logged level %v, code %v, stage %v, status %v; want %s, %s, %d: %v",
			method, entry["level"], entry["code"], entry["stage"], entry["status"], row.code, row.stage, row.status, entry["error"])
	}
	if target, _ := entry["target"].(string); !strings.HasPrefix(target, "127.0.0.1:") {
		t.Errorf("%s: logged target %v", method, entry["target"])
	}
	if text := fmt.Sprint(entry["error"]); !strings.HasSuffix(text, " ["+row.code+"]") || !strings.Contains(text, row.name) {
		t.Errorf("%s: logged error %q", method, text)
	}
}
