package caddytunnel_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// TestMakeTargets wants every make target that the documentation names in the Makefile.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	named := regexp.MustCompile("(?m)(?:`|run: |^ *)(?:sudo )?make ([a-z-]+(?: [a-z-]+)*)")
	for _, doc := range []string{"README.md", "CONTRIBUTING.md", "xcaddy.md", "Caddyfile.example", "docs/costs.md", ".ci/run", ".github/workflows/ci.yml"} {
		for _, m := range named.FindAllStringSubmatch(read(t, doc), -1) {
			for target := range strings.FieldsSeq(m[1]) {
				if !regexp.MustCompile("(?m)^" + target + ":").MatchString(makefile) {
					t.Errorf("%s names make %s, which the Makefile does not have", doc, target)
				}
			}
		}
	}
	for _, command := range []string{"    make demo ", "    make test "} {
		first := strings.Join(strings.SplitAfter(read(t, "README.md"), "\n")[:20], "")
		if !strings.Contains(first, command) {
			t.Errorf("the first screen of the README does not have %q", strings.TrimSpace(command))
		}
	}
}

// TestXcaddy does what xcaddy.md says, block by block: builds, runs, and changes the running config. Only ports, the
// output's path and what stands behind the proxies are the test's own.
func TestXcaddy(t *testing.T) {
	if testing.Short() {
		t.Skip("a build with xcaddy takes a minute or more: not with -short")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the document's commands need curl, which is not installed")
	}
	doc := fences(t, "xcaddy.md")
	dir := t.TempDir()
	x := &xcaddy{t: t, doc: doc, dir: dir, program: filepath.Join(dir, "caddy")}
	x.build()
	x.assertAdapted()
	x.serve()
	x.changeLive()
}

// An xcaddy is one pass through the document.
type xcaddy struct {
	t       *testing.T
	doc     []fence
	dir     string // where the user stands
	program string
	origin  *testbed.Origin
	http    *testbed.Proxy
	socks5  *testbed.Proxy
	ports   *strings.Replacer
	site    string // http://127.0.0.1:port
	admin   string // 127.0.0.1:port
	caddy   *process
}

// build runs the build block in the checkout. The flags are those that let it share compiled packages with the builds
// of other tests; xcaddy's own ones take the same code to a smaller file.
func (x *xcaddy) build() {
	x.t.Helper()
	cgo, err := exec.Command("go", "env", "CGO_ENABLED").Output()
	if err != nil {
		x.t.Fatal(err)
	}
	bin := x.t.TempDir()
	cmd := exec.CommandContext(x.t.Context(), "sh", "-euc", x.ownPath(only(x.t, x.doc, "sh build")))
	cmd.Env = append(os.Environ(),
		"GOBIN="+bin,
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"TMPDIR="+x.t.TempDir(),
		"CGO_ENABLED="+strings.TrimSpace(string(cgo)),
		"XCADDY_GO_BUILD_FLAGS=-ldflags=-w -tags=nobadger,nomysql,nopgx")
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("the build fails: %v\n%s", err, out)
	}
	if !strings.HasSuffix(strings.TrimSpace(string(out)), "\nhttp.reverse_proxy.transport.tunnel") {
		x.t.Fatalf("list-modules does not end the build with the module:\n%s", out)
	}
}

// assertAdapted compares the document's JSON with what its Caddyfile becomes, at the path that it names.
func (x *xcaddy) assertAdapted() {
	x.t.Helper()
	file := filepath.Join(x.t.TempDir(), "Caddyfile")
	write(x.t, file, only(x.t, x.doc, "caddyfile run"))
	p := newProcess(x.t, nil, x.program, "adapt", "--config", file)
	if code := p.run(); code != 0 {
		x.t.Fatalf("adapt exits with %d", code)
	}
	if msg := p.stderr.String(); strings.Contains(msg, "not formatted") {
		x.t.Errorf("the Caddyfile is not formatted as caddy fmt does: %s", msg)
	}
	var got any
	unmarshal(x.t, p.stdout.String(), &got)
	_, path, ok := strings.Cut(strings.TrimSpace(all(x.doc, "sh admin")[0]), "/config/")
	if !ok {
		x.t.Fatal("the first admin block does not say where the transport is")
	}
	for step := range strings.SplitSeq(path, "/") {
		if i, err := strconv.Atoi(step); err == nil {
			list, _ := got.([]any)
			if i >= len(list) {
				x.t.Fatalf("the adapted config has nothing at %s of %s", step, path)
			}
			got = list[i]
			continue
		}
		object, _ := got.(map[string]any)
		if got, ok = object[step]; !ok {
			x.t.Fatalf("the adapted config has nothing at %s of %s", step, path)
		}
	}
	var want any
	unmarshal(x.t, only(x.t, x.doc, "json adapted"), &want)
	if !reflect.DeepEqual(got, want) {
		x.t.Errorf("the document says that the transport becomes\n%v\nit becomes\n%v", want, got)
	}
}

// serve starts the document's proxies and origin, and runs the last line of the run block as a user does.
func (x *xcaddy) serve() {
	x.t.Helper()
	var err error
	if x.origin, err = testbed.NewOrigin(testbed.OriginConfig{Names: []string{"api.example.com"}}); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { x.origin.Close() })
	hosts := map[string]string{"api.example.com:443": x.origin.TLS}
	x.http = x.proxy(testbed.ProxyConfig{Dialect: testbed.HTTP, Hosts: hosts})
	x.socks5 = x.proxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5, Hosts: hosts})
	x.site = "http://127.0.0.1:" + freePort(x.t)
	x.admin = "127.0.0.1:" + freePort(x.t)
	x.ports = strings.NewReplacer(
		"http://127.0.0.1:8080", x.site,
		"127.0.0.1:2019", x.admin,
		"127.0.0.1:3128", x.http.Addr,
		"127.0.0.1:1080", x.socks5.Addr)
	write(x.t, filepath.Join(x.dir, "Caddyfile"), x.ports.Replace(only(x.t, x.doc, "caddyfile run")))
	ca, err := x.origin.CAFile(x.t.TempDir())
	if err != nil {
		x.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(x.ownPath(only(x.t, x.doc, "sh run"))), "\n")
	last := len(lines) - 1
	lines[last] = "exec " + lines[last]
	x.caddy = newProcess(x.t, []string{"SSL_CERT_FILE=" + ca}, "sh", "-euc", strings.Join(lines, "\n"))
	x.caddy.cmd.Dir = x.dir
	x.caddy.start()
	x.caddy.awaitUp(x.site+"/headers", time.Minute)
}

func (x *xcaddy) proxy(cfg testbed.ProxyConfig) *testbed.Proxy {
	x.t.Helper()
	p, err := testbed.NewProxy(cfg)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { p.Close() })
	return p
}

// changeLive runs the admin blocks in their order. After each, the very next request has to obey.
func (x *xcaddy) changeLive() {
	admin := all(x.doc, "sh admin")
	if len(admin) != 4 {
		x.t.Fatalf("the document has %d admin blocks: their checks are here, one each", len(admin))
	}
	variable := admin[0]
	x.assertGet("/bytes/10MiB?framing=length", 200)
	x.assertGet("/bytes/10485761?framing=length", 502)

	x.sh(variable + admin[1])
	x.assertGet("/bytes/10MiB?framing=length", 502)
	x.assertGet("/bytes/5MiB?framing=length", 200)

	x.sh(variable + admin[2])
	x.assertGet("/bytes/5MiB?framing=length", 200)
	if got := x.transport()["pull_bytes"]; got != 131072.0 {
		x.t.Errorf("pull_bytes is %v", got)
	}

	if n := len(x.socks5.Seen()); n != 0 {
		x.t.Errorf("the SOCKS5 proxy was asked %d times before its turn", n)
	}
	before := len(x.http.Seen())
	x.sh(variable + admin[3])
	x.assertGet("/bytes/5MiB?framing=length", 200)
	if n := len(x.socks5.Seen()); n != 1 || len(x.http.Seen()) != before {
		x.t.Errorf("the other proxy was asked %d times for a tunnel, the former one %d times more", n, len(x.http.Seen())-before)
	}

	old := x.transport()
	code, out := x.try(variable + only(x.t, x.doc, "sh refused"))
	if code == 0 || !strings.Contains(out, "socks4") {
		x.t.Errorf("the refused change exits with %d and says %s", code, out)
	}
	if got := x.transport(); !reflect.DeepEqual(got, old) {
		x.t.Errorf("the refused change left %v, want %v", got, old)
	}
	x.assertGet("/bytes/5MiB?framing=length", 200)

	if direct := x.origin.Direct(x.http, x.socks5); len(direct) > 0 {
		x.t.Errorf("the origin was reached directly: %v", direct)
	}
	if code := x.caddy.interrupt(); code != 0 {
		x.t.Errorf("exit code %d after an interrupt", code)
	}
}

func (x *xcaddy) assertGet(path string, want int) {
	x.t.Helper()
	if status, body := fetch(x.t, x.site+path); status != want {
		x.t.Errorf("GET %s: status %d, want %d: %s", path, status, want, body[:min(len(body), 200)])
	}
}

// transport returns the transport's config as the admin API has it.
func (x *xcaddy) transport() map[string]any {
	x.t.Helper()
	_, url, _ := strings.Cut(strings.TrimSpace(x.ports.Replace(all(x.doc, "sh admin")[0])), "=")
	res, err := http.Get(url)
	if err != nil {
		x.t.Fatal(err)
	}
	defer res.Body.Close()
	var transport map[string]any
	if err := json.NewDecoder(res.Body).Decode(&transport); err != nil {
		x.t.Fatal(err)
	}
	return transport
}

func (x *xcaddy) sh(script string) {
	x.t.Helper()
	if code, out := x.try(script); code != 0 {
		x.t.Fatalf("%s\nexits with %d: %s", script, code, out)
	}
}

func (x *xcaddy) try(script string) (code int, out string) {
	x.t.Helper()
	p := newProcess(x.t, nil, "sh", "-euc", x.ports.Replace(script))
	code = p.run()
	awaitSettled(x.t, x.admin)
	awaitSettled(x.t, strings.TrimPrefix(x.site, "http://"))
	return code, p.stdout.String() + p.stderr.String()
}

func (x *xcaddy) ownPath(script string) string {
	return strings.ReplaceAll(script, "./caddy", x.program)
}

// A fence is a fenced block of a document: its info string and its text.
type fence struct{ info, text string }

func fences(t *testing.T, file string) []fence {
	t.Helper()
	var found []fence
	for _, m := range regexp.MustCompile("(?ms)^```([^\n]+)\n(.*?)^```$").FindAllStringSubmatch(read(t, file), -1) {
		found = append(found, fence{m[1], m[2]})
	}
	known := []string{"sh build", "caddyfile run", "sh run", "json adapted", "sh admin", "sh refused"}
	for _, f := range found {
		if !slices.Contains(known, f.info) {
			t.Errorf("%s has a block %q that no test runs", file, f.info)
		}
	}
	return found
}

func all(blocks []fence, info string) []string {
	var found []string
	for _, b := range blocks {
		if b.info == info {
			found = append(found, b.text)
		}
	}
	return found
}

func only(t *testing.T, blocks []fence, info string) string {
	t.Helper()
	found := all(blocks, info)
	if len(found) != 1 {
		t.Fatalf("there are %d blocks %q, want one", len(found), info)
	}
	return found[0]
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unmarshal(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
