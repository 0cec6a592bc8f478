package caddymodule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// A server is a real Caddy in this process. There is one at a time, as caddy.Load has one config.
type server struct {
	t     *testing.T
	url   string // http://127.0.0.1:port
	admin string
	log   string
}

// startCaddy runs a site with the given body, and stops it with the test. Its log, down to debug, is kept.
func startCaddy(t *testing.T, site string) *server {
	t.Helper()
	s := &server{t: t, log: filepath.Join(t.TempDir(), "caddy.log")}
	s.url, s.admin = "http://"+freeAddr(t), freeAddr(t)
	cfg := s.adapt(site)
	if err := caddy.Load(cfg, true); err != nil {
		t.Fatalf("loading: %v\n%s", err, cfg)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", s.logs())
		}
	})
	return s
}

// caddyfile puts a site's body into a whole Caddyfile. Clients may speak HTTP/1.1 or h2c.
func (s *server) caddyfile(site string) string {
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	storage_clean_interval off
	grace_period 2s
	servers {
		protocols h1 h2c
	}
	log default {
		output file %s
		level DEBUG
		format json
	}
}
http://%s {
	bind 127.0.0.1
	log
	%s
}
`, s.admin, s.log, s.url[strings.LastIndex(s.url, ":"):], site)
}

func (s *server) adapt(site string) []byte {
	s.t.Helper()
	cfg, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(s.caddyfile(site)), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") {
			s.t.Logf("adapt: %s", w)
		}
	}
	return cfg
}

// logs returns what has been logged so far.
func (s *server) logs() string {
	data, err := os.ReadFile(s.log)
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	return string(data)
}

// logged returns the log entries with the given message.
func (s *server) logged(msg string) []map[string]any {
	var out []map[string]any
	for line := range strings.Lines(s.logs()) {
		var entry map[string]any
		if strings.Contains(line, msg) && json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == msg {
			out = append(out, entry)
		}
	}
	return out
}

// awaitLogged waits for an entry with the given message.
func (s *server) awaitLogged(msg string) map[string]any {
	s.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if entries := s.logged(msg); len(entries) > 0 {
			return entries[len(entries)-1]
		}
		<-time.After(5 * time.Millisecond)
	}
	s.t.Fatalf("nothing logged %q:\n%s", msg, s.logs())
	return nil
}

// client asks for no coding, and keeps no connection.
func (s *server) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
}

// interim counts the 103 responses that come before the answer.
func interim(t *testing.T, s *server, path string) int {
	t.Helper()
	n := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				n++
			}
			return nil
		},
	})
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return n
}

// do sends one request on a connection of its own and returns the response with its whole body.
func (s *server) do(method, path string, body io.Reader, header http.Header) (*http.Response, []byte, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	res, err := s.client().Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res, data, err
}

// get is do without ceremony; the status must be as wanted.
func (s *server) get(path string, status int) []byte {
	s.t.Helper()
	res, body, err := s.do("GET", path, nil, nil)
	if err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	if res.StatusCode != status {
		s.t.Fatalf("GET %s: status %d, want %d: %s", path, res.StatusCode, status, bytes.TrimSpace(body))
	}
	return body
}
