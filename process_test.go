package caddytunnel_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// programs is the folder of what the tests build, gone behind them.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "caddytunnel-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// buildCaddy builds cmd/caddy once for all tests that run it.
var buildCaddy = sync.OnceValues(func() (string, error) {
	program := filepath.Join(programs, "caddy")
	out, err := exec.Command("go", "build", "-o", program, "./cmd/caddy").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, err
})

func caddyProgram(t *testing.T) string {
	t.Helper()
	program, err := buildCaddy()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// A process is a program that runs beside the test. It sees nothing of this machine's environment but PATH.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	home, tmp      string // its HOME and TMPDIR, empty when it starts
	stdout, stderr output
	ended          chan struct{}
	err            error // once ended
}

// newProcess prepares a program. The test kills it, if it still runs at its end.
func newProcess(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, home: t.TempDir(), tmp: t.TempDir(), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), name, args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "TMPDIR=" + p.tmp}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	return p
}

func (p *process) start() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if p.t.Failed() {
			p.t.Logf("%s\n%s%s", p.cmd, &p.stdout, &p.stderr)
		}
	})
}

// run waits for the program's end and returns its exit code.
func (p *process) run() int {
	p.t.Helper()
	p.start()
	return p.wait()
}

// interrupt is Ctrl-C.
func (p *process) interrupt() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
	return p.wait()
}

func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("%s does not end", p.cmd)
	}
	return p.cmd.ProcessState.ExitCode()
}

// awaitUp waits until url is answered.
func (p *process) awaitUp(url string, limit time.Duration) {
	p.t.Helper()
	for deadline := time.After(limit); ; {
		res, err := http.Get(url)
		if err == nil {
			res.Body.Close()
			return
		}
		select {
		case <-p.ended:
			p.t.Fatalf("%s has ended: %v", p.cmd, p.err)
		case <-deadline:
			p.t.Fatalf("not up after %v: %v", limit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// assertNoTrace fails the test if the program left a file in its HOME or TMPDIR.
func (p *process) assertNoTrace() {
	p.t.Helper()
	for _, dir := range []string{p.home, p.tmp} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			p.t.Error(err)
		}
		for _, e := range entries {
			p.t.Errorf("%s left %s", p.cmd, filepath.Join(dir, e.Name()))
		}
	}
}

// output is a buffer that can be read while the program writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// fetch returns the status and the length of what url answers.
func fetch(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return res.StatusCode, body
}

// freePort returns a port of 127.0.0.1 that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
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
