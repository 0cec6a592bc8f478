package caddymodule

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// adminTransport is where a one-route site of the harness has its transport.
const adminTransport = "/config/apps/http/servers/srv0/routes/0/handle/0/transport"

// adminDo sends one request to the admin API and returns its status and answer.
func (s *server) adminDo(method, path, value string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.admin+path, strings.NewReader(value))
	if err != nil {
		s.t.Fatal(err)
	}
	if value != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(answer))
}

// adminChange is adminDo for a change that must succeed.
func (s *server) adminChange(method, path, value string) {
	s.t.Helper()
	if status, answer := s.adminDo(method, path, value); status != 200 {
		s.t.Fatalf("%s %s %s: %d %s", method, path, value, status, answer)
	}
	s.settle()
}

// settle waits until a former config is not reached any more.
func (s *server) settle() {
	s.t.Helper()
	awaitSettled(s.t, s.admin)
	awaitSettled(s.t, strings.TrimPrefix(s.url, "http://"))
}

// awaitSettled waits until addr has one listener. Caddy opens a further one for a new config and closes the old one in the
// background, with what it has not accepted; a connection that is made before may be reset or served by the old config.
// Where there is no /proc, it does not wait.
func awaitSettled(t *testing.T, addr string) {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	listening := fmt.Appendf(nil, ": 0100007F:%04X 00000000:0000 0A ", n)
	for deadline := time.After(10 * time.Second); ; {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil || bytes.Count(table, listening) == 1 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s does not have one listener:\n%s", addr, table)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// startJSON runs Caddy with nothing but the admin API, and posts the config to it: one route with the given transport.
func startJSON(t *testing.T, upstream, transport string) *server {
	t.Helper()
	s := &server{t: t, log: filepath.Join(t.TempDir(), "caddy.log")}
	addr := freeAddr(t)
	s.url, s.admin = "http://"+addr, freeAddr(t)
	admin := fmt.Sprintf(`"admin": {"listen": %q, "config": {"persist": false}}`, s.admin)
	if err := caddy.Load([]byte("{"+admin+"}"), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", s.logs())
		}
	})
	s.adminChange("POST", "/load", fmt.Sprintf(`{
	%s,
	"logging": {"logs": {"default": {"level": "DEBUG", "writer": {"output": "file", "filename": %q}}}},
	"apps": {
		"tls": {"disable_storage_clean": true},
		"http": {"servers": {"srv0": {
			"listen": [%q],
			"automatic_https": {"disable": true},
			"routes": [{"handle": [{
				"handler": "reverse_proxy",
				"upstreams": [{"dial": %q}],
				"transport": %s
			}]}]
		}}}
	}
}`, admin, s.log, addr, upstream, transport))
	return s
}

// TestAdminChangesRunningRoute loads JSON and changes it: each next request obeys.
func TestAdminChangesRunningRoute(t *testing.T) {
	b := newBed(t)
	s := startJSON(t, b.origin.TLS, fmt.Sprintf(`{
		"@id": "way",
		"protocol": "tunnel",
		"via": [{"proxies": [{"url": %q}]}],
		"tls": {"ca": {"provider": "file", "pem_files": [%q]}},
		"max_body_bytes": 1048576
	}`, b.proxies["http"].URL(), b.originCA))
	const fits, over = "/bytes/1MiB?framing=length", "/bytes/1048577?framing=length"
	s.get(fits, 200)
	s.get(over, 502)

	s.adminChange("PATCH", adminTransport+"/max_body_bytes", "1048577")
	s.get(over, 200)
	s.adminChange("PATCH", "/id/way/max_body_bytes", "1048575")
	s.get(fits, 502)
	s.adminChange("PATCH", adminTransport+"/max_body_bytes", "-1")
	s.get(over, 200)
	s.adminChange("PATCH", adminTransport+"/max_body_bytes", "1024")
	s.get(fits, 502)
	s.adminChange("DELETE", adminTransport+"/max_body_bytes", "")
	s.get(over, 200)

	// An absent key: PATCH does not create it, POST does.
	if status, _ := s.adminDo("PATCH", adminTransport+"/pull_bytes", "4096"); status != 404 {
		t.Errorf("PATCH of an absent key answers %d, want 404", status)
	}
	s.adminChange("POST", adminTransport+"/pull_bytes", "4096")
	s.adminChange("POST", adminTransport+"/decode", `["gzip"]`)
	body := s.get("/bytes/1MiB?coding=gzip", 200)
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != testbed.PageSum(1<<20) {
		t.Errorf("not decoded: %d bytes", len(body))
	}

	// The way itself, hop by hop.
	before := len(b.proxies["http"].Seen())
	s.adminChange("PATCH", adminTransport+"/via/0", fmt.Sprintf(
		`{"proxies": [{"url": %q, "auth": {"scheme": "basic", "username": %q, "password": %q}}]}`, b.proxies["socks5"].URL(), bedUser, bedPassword))
	s.get(fits, 200)
	if n := len(b.proxies["http"].Seen()); n != before || len(b.proxies["socks5"].Seen()) != 1 {
		t.Errorf("the former proxy was asked %d times more, the new one %d times", n-before, len(b.proxies["socks5"].Seen()))
	}
	s.adminChange("POST", adminTransport+"/via", fmt.Sprintf(`{"proxies": [{"url": %q}]}`, b.proxies["http"].URL()))
	s.get(fits, 200)
	if n := len(b.proxies["http"].Seen()); n != before+1 || len(b.proxies["socks5"].Seen()) != 2 {
		t.Errorf("the hop behind was asked %d times more, the nearest %d times", n-before, len(b.proxies["socks5"].Seen()))
	}
	b.assertNoDirect()
}

// TestAdminRefuses sends changes that cannot work: each is refused with what is wrong, and the old config stays.
func TestAdminRefuses(t *testing.T) {
	b := newBed(t)
	s := startCaddy(t, b.site("http", "h2", "max_body_bytes 64KiB", ""))
	_, old := s.adminDo("GET", adminTransport, "")
	for _, test := range []struct{ name, method, path, value, want string }{
		{"unknown_key", "POST", "/max_body_byte", "1024", "max_body_byte"},
		{"unknown_key_of_proxy", "POST", "/via/0/proxies/0/usr", `"x"`, "usr"},
		{"unknown_key_of_tls", "POST", "/tls/pin", `"x"`, "pin"},
		{"wrong_type", "PATCH", "/max_body_bytes", `"64KiB"`, "max_body_bytes"},
		{"out_of_range", "POST", "/pull_bytes", "512", "1 KiB to 4 MiB"},
		{"no_memory", "POST", "/write_buffer_size", "2147483648", "up to 1 GiB"},
		{"below_unlimited", "PATCH", "/max_body_bytes", "-2", "max_body_bytes"},
		{"unknown_coding", "POST", "/decode", `["lzma"]`, "lzma"},
		{"unknown_version", "POST", "/versions", `["3"]`, "QUIC"},
		{"unknown_scheme", "PATCH", "/via/0/proxies/0/url", `"socks4://127.0.0.1:1080"`, "socks4"},
		{"no_way", "DELETE", "/via", "", "via direct"},
		{"no_proxy", "PATCH", "/via/0/proxies", "[]", "names no proxy"},
		{"null_hop", "PATCH", "/via", "[null]", "hop 1"},
		{"null_proxy", "PATCH", "/via/0/proxies", "[null]", "hop 1"},
		{"direct_among_hops", "POST", "/via", `{"direct": true}`, "direct"},
		{"missing_file", "PATCH", "/tls/ca/pem_files/0", `"/nonexistent.pem"`, "/nonexistent.pem"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, answer := s.adminDo(test.method, adminTransport+test.path, test.value)
			s.settle()
			if status/100 == 2 || !strings.Contains(answer, test.want) {
				t.Errorf("%d %s\nwant an error with %q", status, answer, test.want)
			}
			if _, now := s.adminDo("GET", adminTransport, ""); now != old {
				t.Errorf("the config is now %s\nwant %s", now, old)
			}
			s.get("/bytes/64KiB?framing=length", 200)
			s.get("/bytes/65537?framing=length", 502)
		})
	}
	b.assertNoDirect()
}
