package caddymodule

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const exampleFile = "../Caddyfile.example"

// TestExampleAdapts adapts the example as it stands, with no variable set, to testdata/example.json.
func TestExampleAdapts(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DEMO_") {
			t.Setenv(name, "") // put back by the test's end
			os.Unsetenv(name)
		}
	}
	got, err := adapt(readFile(t, exampleFile))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/example.json"
	if *update {
		if err := os.WriteFile(golden, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := strings.TrimSpace(readFile(t, golden)); got != want {
		t.Errorf("adapted to\n%s\nwant\n%s", got, want)
	}
}

// TestExampleRoutes wants each route of the example on the demo's page, and each route of the page in the example.
func TestExampleRoutes(t *testing.T) {
	inExample := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\thandle_path (/[^ ]*/)\* \{$`).FindAllStringSubmatch(readFile(t, exampleFile), -1) {
		inExample[m[1]] = true
	}
	onPage := make(map[string]bool)
	for _, r := range demoRoutes() {
		onPage[r.Path[:strings.Index(r.Path[1:], "/")+2]] = true
	}
	if !maps.Equal(inExample, onPage) {
		t.Errorf("the example has %v, the page %v", slices.Sorted(maps.Keys(inExample)), slices.Sorted(maps.Keys(onPage)))
	}
}

// TestExampleVariables wants the demo to set what the example reads, with the example's defaults for the ports.
func TestExampleVariables(t *testing.T) {
	t.Setenv("DEMO_PORT", "")
	t.Setenv("DEMO_ADMIN_PORT", "")
	example := readFile(t, exampleFile)
	read := make(map[string]string) // with its default
	for _, m := range regexp.MustCompile(`\{(?:\$|env\.)(DEMO_\w+)(?::([^}]*))?\}`).FindAllStringSubmatch(example, -1) {
		if former, ok := read[m[1]]; ok && former != m[2] {
			t.Errorf("%s has the defaults %q and %q", m[1], former, m[2])
		}
		read[m[1]] = m[2]
	}
	d := newDemo()
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.start(true); err != nil {
		t.Fatal(err)
	}
	if set, want := slices.Sorted(maps.Keys(d.env)), slices.Sorted(maps.Keys(read)); !slices.Equal(set, want) {
		t.Errorf("the demo sets %v, the example reads %v", set, want)
	}
	for _, v := range demoPorts() {
		if read[v.name] != v.port {
			t.Errorf("%s: the demo's default is %s, the example's %s", v.name, v.port, read[v.name])
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
