package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A row is a case as docs/cases.md has it.
type row struct {
	id, severity string
	tested       bool
	waits        string // for what, if it waits
	marked       string // why it does not apply
	undone       bool   // its fix was undone, and its tests failed
}

var rowPattern = regexp.MustCompile(`^\| ([CSTPHBKV]\d\d) \| (S[1-4]) \|.*\| (.*) \|$`)

// readTable reads docs/cases.md. The last column says how a case stands: "tested", "tested, undone", "waits for what" or
// "does not apply: why".
func readTable(root string) (rows []row, err error) {
	file := filepath.Join(root, "docs", "cases.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	line := 0
	for text := range strings.Lines(string(text)) {
		line++
		m := rowPattern.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			continue
		}
		r := row{id: m[1], severity: m[2]}
		state := m[3]
		r.undone = state == "tested, undone"
		r.tested = r.undone || state == "tested"
		var waits, marked bool
		r.waits, waits = strings.CutPrefix(state, "waits for ")
		r.marked, marked = strings.CutPrefix(state, "does not apply: ")
		if !waits {
			r.waits = ""
		}
		if !marked {
			r.marked = ""
		}
		if !r.tested && r.waits == "" && r.marked == "" {
			return nil, fmt.Errorf("%s:%d: %s is neither tested, nor waits for something, nor does not apply: %q", file, line, r.id, state)
		}
		rows = append(rows, r)
	}
	return rows, nil
}
