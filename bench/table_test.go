package bench

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestReport compares a report with testdata/report.md and report.json; -update writes them.
func TestReport(t *testing.T) {
	table := Table{
		Title:   "KiB for each tunnel",
		Note:    "Of nothing but this test.",
		Columns: []string{"what", "KiB", "ratio"},
	}
	table.add(label("%d, %s", 1000, sizeName(kib)), figure([]float64{31.234567, 30.5, 33}), ratio([]float64{0.5, 0.4, 0.61}))
	table.add(label("größer"), figure(nil), ratio(nil))
	r := &Report{
		Name: "report", About: "What reports look like.", Mode: "tiny", Commit: "0123456789ab",
		Machine: Machine{CPU: "A CPU", Cores: 2, Kernel: "6.1", System: "linux/amd64", Go: "go1.26"},
		Tables:  []Table{table},
	}
	r.problem("%s went wrong", "something")
	dir := t.TempDir()
	if *update {
		dir = "testdata"
	}
	if err := r.save(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.md", "report.json"} {
		got, want := read(t, filepath.Join(dir, name)), read(t, filepath.Join("testdata", name))
		if got != want {
			t.Errorf("%s is now (go test -run TestReport -update writes it)\n%s\nit was\n%s", name, got, want)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDigits(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.01234: "0.012", 0.5: "0.500", 1.2345: "1.23", 12.345: "12.3", 123.45: "123", 123456.7: "123457", -12.345: "-12.3", math.NaN(): "-",
	} {
		if got := digits(f); got != want {
			t.Errorf("%v is written %s, not %s", f, got, want)
		}
	}
}

func TestSizeName(t *testing.T) {
	for n, want := range map[int64]string{1: "1 B", 1024: "1 KiB", 1536: "1536 B", 65536: "64 KiB", 4 << 20: "4 MiB"} {
		if got := sizeName(n); got != want {
			t.Errorf("%d is written %s, not %s", n, got, want)
		}
	}
}

func TestMachine(t *testing.T) {
	m := thisMachine()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if m.CPU == "" || m.CPU == host || m.Kernel == "" || m.Kernel == host || m.Cores < 1 {
		t.Errorf("the machine is %+v", m)
	}
}
