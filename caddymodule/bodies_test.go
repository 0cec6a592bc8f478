package caddymodule

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// TestBodies256MiB sends large bodies through a Caddy process of its own, down and up over every dialect and protocol,
// compares them at both ends, and holds the process's peak memory against that of small ones.
func TestBodies256MiB(t *testing.T) {
	if os.Getenv("TUNNEL_BODIES") == "" {
		t.Skip("takes minutes: 'make bodies' runs it")
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("peak memory is read from /proc, which is not here")
	}
	const small, large, most = 8 << 20, 256 << 20, 16 << 20
	program := filepath.Join(t.TempDir(), "caddy")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/caddy").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "way\tprotocol\tpeak, 8 MiB\tpeak, 256 MiB\tdifference\t")
	for _, way := range bedWays {
		for _, protocol := range bedProtocols {
			t.Run(way+"/"+protocol, func(t *testing.T) {
				before := peakOfBodies(t, program, way, protocol, small)
				after := peakOfBodies(t, program, way, protocol, large)
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", way, protocol, mib(before), mib(after), mib(after-before))
				if after-before >= most {
					t.Errorf("peak memory is %s with bodies of 256 MiB and %s with 8 MiB", mib(after), mib(before))
				}
			})
		}
	}
	w.Flush()
	t.Logf("peak memory of the Caddy process:\n%s", &table)
}

// peakOfBodies runs a fresh Caddy, sends n bytes each way, and returns the most memory that it had at a time.
func peakOfBodies(t *testing.T, program, way, protocol string, n int64) int64 {
	t.Helper()
	b := newBed(t)
	s := &server{t: t, log: filepath.Join(t.TempDir(), "caddy.log"), url: "http://" + freeAddr(t), admin: freeAddr(t)}
	config := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(config, []byte(s.caddyfile(b.site(way, protocol, "", ""))), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "run", "--config", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	for deadline := time.After(20 * time.Second); ; {
		res, err := s.client().Get(s.url + "/headers")
		if err == nil {
			res.Body.Close()
			break
		}
		select {
		case <-deadline:
			t.Fatalf("not up: %v\n%s", err, s.logs())
		case <-time.After(20 * time.Millisecond):
		}
	}
	assertDown(t, s, n)
	assertUp(t, s, n, wireProto(protocol))
	if way != "direct" {
		b.assertNoDirect()
	}
	return peakMemory(t, cmd.Process.Pid)
}

// peakMemory is the VmHWM of a process in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status := readFile(t, fmt.Sprintf("/proc/%d/status", pid))
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(status)
	if m == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kib, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
