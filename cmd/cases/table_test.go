package main

import (
	"slices"
	"strings"
	"testing"
)

// TestTable compares docs/cases.md with the tests that there are, and with the undo files.
func TestTable(t *testing.T) {
	rows, err := readTable(root)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := findTests(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, test := range tests {
		for _, id := range test.ids {
			found[id] = true
		}
	}
	changes, err := readUndo("undo", nil)
	if err != nil {
		t.Fatal(err)
	}
	undone := map[string]bool{}
	for _, c := range changes {
		undone[c.id] = true
	}
	if len(rows) != 120 || !slices.IsSortedFunc(rows, func(a, b row) int { return order(a.id) - order(b.id) }) {
		t.Errorf("%d rows, or not in order", len(rows))
	}
	waiting, marked := 0, 0
	for _, r := range rows {
		if r.tested && !found[r.id] {
			t.Errorf("%s is said to be tested, but there is no test of that name", r.id)
		}
		if r.undone != undone[r.id] {
			t.Errorf("%s is said to be undone: %t; there is an undo file: %t", r.id, r.undone, undone[r.id])
		}
		if r.severity == "S1" && !r.undone && r.waits == "" {
			t.Errorf("%s is of severity S1, and neither undone nor waiting", r.id)
		}
		if r.waits != "" {
			waiting++
		}
		if r.marked != "" {
			marked++
		}
	}
	if waiting > 8 || marked > 10 {
		t.Errorf("%d wait and %d do not apply, want at most 8 and 10", waiting, marked)
	}
}

// order is that of the table: by area, then by number.
func order(id string) int {
	return strings.IndexByte("CSTPHBKV", id[0])*100 + int(id[1]-'0')*10 + int(id[2]-'0')
}
