package main

import (
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestUndoFiles wants every undo file to fit the code as it is, so that it can be tried at any time.
func TestUndoFiles(t *testing.T) {
	changes, err := readUndo("undo", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if _, err := c.apply(root); err != nil {
			t.Error(err)
		}
	}
}

func TestParseUndo(t *testing.T) {
	c, err := parseUndo("why: a\nfile: f\n- \told\n-\n- next\n+ \tnew\n- other\nfile: g\n- x\n+ y\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []block{{"f", "\told\n\nnext\n", "\tnew\n"}, {"f", "other\n", ""}, {"g", "x\n", "y\n"}}
	if c.why != "a" || !slices.Equal(c.blocks, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
	for _, text := range []string{"", "why: a\nfile: f\n", "why: a\n- x\n", "file: f\n- x\n", "why: a\nfile: f\n+ x\n", "why: a\nfile: f\n- x\nz\n"} {
		if _, err := parseUndo(text); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

// TestReport reads what 'go test -json' prints.
func TestReport(t *testing.T) {
	r := newResults()
	err := r.read(strings.NewReader(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/C01_x"}
{"Action":"output","Package":"p","Test":"TestA/C01_x/deep","Output":"deep trouble\n"}
{"Action":"fail","Package":"p","Test":"TestA/C01_x/deep"}
{"Action":"fail","Package":"p","Test":"TestA/C01_x"}
{"Action":"pass","Package":"p","Test":"TestA/C02_C03_y"}
{"Action":"pass","Package":"p","Test":"TestA/C04_y"}
{"Action":"skip","Package":"p","Test":"TestB/C04_z"}
{"Action":"run","Package":"q","Test":"TestC/C05_z"}
{"Action":"fail","Package":"q"}
`))
	if err != nil {
		t.Fatal(err)
	}
	rows := []row{
		{id: "C01", tested: true}, {id: "C02", tested: true}, {id: "C03", tested: true}, {id: "C04", tested: true}, {id: "C05", tested: true},
		{id: "C06", tested: true}, {id: "C07", waits: "pins"}, {id: "C08", marked: "no such thing"},
	}
	var out strings.Builder
	if err := report(&out, rows, r); err == nil {
		t.Error("no error")
	}
	const want = `C01 fails: p TestA/C01_x
deep trouble
C04 fails: p TestB/C04_z
C05 fails: q TestC/C05_z
C06 fails: no test of it ran
package q failed
do not apply (no such thing): C08
wait for pins: C07
fail: C01 C04 C05 C06
cases: 2 of 8 pass, 1 wait, 4 fail
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := report(&out, rows[1:3], newResultsOf("C02", "C03")); err != nil || out.String() != "cases: 2 of 2 pass, 0 wait, 0 fail\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func newResultsOf(ids ...string) *results {
	r := newResults()
	for _, id := range ids {
		r.passed[id] = []string{"p TestA/" + id + "_x"}
	}
	return r
}
