package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// results is what a run of 'go test' found.
type results struct {
	passed, failed map[string][]string // by case: its subtests
	output         map[string][]string // of each failed subtest, by package and name
	packages       []string            // that failed, by whatever
	build          strings.Builder     // what the compiler said
}

// An event is a line of 'go test -json' (see 'go doc test2json').
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// goTest runs the cases among tests, with further arguments.
func goTest(ctx context.Context, root string, tests []test, only string, args ...string) (*results, error) {
	if len(tests) == 0 {
		return nil, errors.New("no tests of cases found")
	}
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	slices.Sort(names)
	cases := "[CSTPHBKV][0-9][0-9]"
	if only != "" {
		cases = only
	}
	// The name of a subtest may begin with several ids.
	pattern := fmt.Sprintf("^(%s)$/^([CSTPHBKV][0-9][0-9]_)*%s_", strings.Join(slices.Compact(names), "|"), cases)
	args = append(append([]string{"test", "-race", "-json", "-count=1", "-run", pattern}, args...), packages(tests)...)
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- names and folders of this repository
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := newResults()
	err = r.read(out)
	if exit := cmd.Wait(); exit != nil {
		if _, failed := errors.AsType[*exec.ExitError](exit); !failed || ctx.Err() != nil {
			return nil, errors.Join(exit, ctx.Err())
		}
	}
	return r, err
}

func newResults() *results {
	return &results{passed: map[string][]string{}, failed: map[string][]string{}, output: map[string][]string{}}
}

// read reads the events of 'go test -json'.
func (r *results) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	running := map[string]event{}
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%w: %s", err, lines.Bytes())
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			r.build.WriteString(e.Output)
		case "run":
			running[key] = e
		case "output":
			top, sub, _ := strings.Cut(e.Test, "/")
			sub, _, _ = strings.Cut(sub, "/")
			r.output[e.Package+" "+top+"/"+sub] = append(r.output[e.Package+" "+top+"/"+sub], e.Output)
		case "pass", "fail", "skip":
			delete(running, key)
			r.ended(e)
		}
	}
	for _, e := range running { // when the process died
		e.Action = "fail"
		r.ended(e)
	}
	return lines.Err()
}

// ended notes the end of a test, or of a package.
func (r *results) ended(e event) {
	if e.Test == "" {
		if e.Action == "fail" {
			r.packages = append(r.packages, e.Package)
		}
		return
	}
	parts := strings.Split(e.Test, "/")
	if len(parts) != 2 {
		return
	}
	into := r.failed
	if e.Action == "pass" {
		into = r.passed
	}
	for _, id := range idsOf(parts[1]) {
		into[id] = append(into[id], e.Package+" "+e.Test)
	}
}
