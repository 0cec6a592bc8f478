package bench

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/peers"
)

// tiny is a plan of every part that takes seconds.
func tiny() plan {
	return plan{
		mode: "tiny",
		side: sidePlan{
			cells: []cell{
				{"testbed", "1.1", false, 2, kib},
				{"testbed", "2", false, 1, 64 * kib},
				{"testbed", "1.1", true, 1, kib},
				{"testbed", "2", true, 1, kib},
				{"nginx", "1.1", false, 1, kib},
				{"nginx", "2", true, 1, kib},
			},
			rounds: 2, warmup: 2, cpu: 20 * time.Millisecond, longest: 200 * time.Millisecond,
		},
		ladder:  ladderPlan{sizes: []int64{kib, 64 * kib}, rounds: 2, sample: time.Millisecond, firsts: 2},
		sweep:   sweepPlan{pulls: []int{4 * kib, 16 * kib, 64 * kib}, size: 64 * kib, rounds: 2, sample: time.Millisecond},
		cap:     capPlan{size: 64 * kib, rounds: 3, sample: time.Millisecond, codings: []string{"gzip", "deflate", "br", "zstd"}},
		memory:  memoryPlan{tunnels: []int{5}, sizes: []int64{kib, 64 * kib}, rounds: 1},
		streams: streamPlan{size: 256 * kib, chunk: kib, rounds: 3, codings: []string{"gzip", "deflate", "br", "zstd"}},
	}
}

// runTiny runs one part and returns what it printed.
func runTiny(t *testing.T, part, caddy string, change func(*Options)) string {
	t.Helper()
	var out strings.Builder
	o := Options{Peers: []string{os.Args[0], "peers"}, Caddy: caddy, Parts: []string{part}, Dir: t.TempDir(), Out: &out, plan: tiny()}
	if change != nil {
		change(&o)
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, ext := range []string{".md", ".json"} {
		saved, err := os.ReadFile(filepath.Join(o.Dir, part+ext))
		if o.Cells != nil && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if ext == ".md" && strings.TrimSpace(string(saved)) != strings.TrimSpace(out.String()) {
			t.Errorf("what is saved is not what is printed:\n%s", saved)
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("a figure is no number:\n%s", out.String())
	}
	return out.String()
}

func assertRows(t *testing.T, text string, begin ...string) {
	t.Helper()
	for _, b := range begin {
		if !strings.Contains(text, "\n| "+b) {
			t.Errorf("no row begins with %q in\n%s", b, text)
		}
	}
}

func TestTinyLadder(t *testing.T) {
	text := runTiny(t, "ladder", "", nil)
	for _, r := range rungs() {
		assertRows(t, text, r.name+" ")
	}
	for _, way := range []string{"direct", "CONNECT", "SOCKS5"} {
		if !strings.Contains(text, "### "+way+": ratios") {
			t.Errorf("no ratios for %s in\n%s", way, text)
		}
	}
}

func TestTinySweep(t *testing.T) {
	text := runTiny(t, "sweep", "", nil)
	assertRows(t, text, "4 KiB ", "64 KiB ", "16 KiB again ")
	for _, table := range []string{"direct, h1c", "direct, h2c", "CONNECT, h1c", "CONNECT, h2c"} {
		if !strings.Contains(text, "### "+table) {
			t.Errorf("no table for %s in\n%s", table, text)
		}
	}
}

// TestSweepIsConnected wants the knob to reach the socket on every way: a page of 64 KiB takes sixteen reads of 4 KiB.
func TestSweepIsConnected(t *testing.T) {
	p, err := startPeers(t.Context(), []string{os.Args[0], "peers"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	for _, w := range p.ways() {
		for _, proto := range []string{"http/1.1", "h2"} {
			plan := sweepPlan{pulls: []int{4 * kib, mib}, size: 64 * kib, rounds: 1, sample: time.Millisecond}
			costs, err := sweep(t.Context(), newPath(w, p), proto, plan)
			if err != nil {
				t.Fatal(err)
			}
			if reads, fill := costs[0][0].reads, costs[0][0].fill; reads < 16 || fill > 4*kib {
				t.Errorf("%s, %s: %.1f reads of %.0f bytes on average", w.name, proto, reads, fill)
			}
		}
	}
}

func TestTinyCap(t *testing.T) {
	assertRows(t, runTiny(t, "cap", "", nil), "time ", "CPU ", "gzip ", "deflate ", "br ", "zstd ")
}

func TestTinyStreams(t *testing.T) {
	assertRows(t, runTiny(t, "streams", "", nil), "io.Copy ", "io.Pipe", "pass ", "cap ", "decode gzip ", "zstd decoder alone ")
}

func TestTinyWithCaddy(t *testing.T) {
	caddy := buildCaddy(t)
	t.Run("sidebyside", func(t *testing.T) {
		missing := slices.Contains(peers.Missing(), "nginx")
		if missing && os.Getenv("CI") == "true" {
			t.Fatal("nginx is missing")
		}
		text := runTiny(t, "sidebyside", caddy, func(o *Options) {
			if missing {
				o.plan.side.cells = slices.DeleteFunc(o.plan.side.cells, func(c cell) bool { return c.origin == "nginx" })
			}
		})
		assertRows(t, text, "HTTP/1.1, 2, 1 KiB ", "HTTP/2, 1, 64 KiB ", "HTTP/1.1, 1, 1 KiB ", "HTTP/2, 1, 1 KiB ")
		if !missing && !strings.Contains(text, "### nginx origin, a fresh") {
			t.Errorf("no table with nginx in\n%s", text)
		}
		if !strings.Contains(text, "100 % |\n") {
			t.Errorf("the tunnel resumes no TLS session:\n%s", text)
		}
	})
	t.Run("memory", func(t *testing.T) {
		assertRows(t, runTiny(t, "memory", caddy, nil), "5, 1 KiB ", "5, 64 KiB ")
	})
	t.Run("cells-are-chosen", func(t *testing.T) {
		text := runTiny(t, "sidebyside", caddy, func(o *Options) { o.Cells = regexp.MustCompile(`^testbed/h2/warm/`) })
		if strings.Contains(text, "HTTP/1.1,") || !strings.Contains(text, "HTTP/2, 1, 64 KiB") {
			t.Errorf("other cells were measured:\n%s", text)
		}
	})
	// A sample that is not what its cell says is in no table, and the run fails.
	t.Run("wrong-protocol-is-found", func(t *testing.T) {
		var out strings.Builder
		o := Options{Peers: []string{os.Args[0], "peers"}, Caddy: caddy, Parts: []string{"sidebyside"}, Out: &out, plan: tiny()}
		o.plan.side.cells = []cell{{"testbed", "1.1 2", false, 1, kib}} // HTTP/2 comes of it
		err := Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "over HTTP/1.1") || strings.Contains(out.String(), "req/s") {
			t.Errorf("the error is %v, the report\n%s", err, out.String())
		}
	})
}

func TestUnknownPart(t *testing.T) {
	if err := Run(t.Context(), Options{Parts: []string{"speed"}}); err == nil || !strings.Contains(err.Error(), "sidebyside") {
		t.Errorf("the error is %v", err)
	}
}

func buildCaddy(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Caddy to be built: not with -short")
	}
	program := filepath.Join(t.TempDir(), "caddy")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/caddy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
