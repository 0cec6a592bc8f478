package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// report prints how the cases stand. It is an error if one fails, or one has no test.
func report(w io.Writer, rows []row, r *results) error {
	var failed []string
	passed := 0
	waits, marked := map[string][]string{}, map[string][]string{}
	for _, c := range rows {
		tests := len(r.passed[c.id]) + len(r.failed[c.id])
		switch {
		case len(r.failed[c.id]) > 0, c.tested && tests == 0:
			failed = append(failed, c.id)
		case c.tested:
			passed++
		case c.waits != "":
			waits[c.waits] = append(waits[c.waits], c.id)
		default:
			marked[c.marked] = append(marked[c.marked], c.id)
		}
	}
	fmt.Fprint(w, r.build.String())
	for _, id := range failed {
		if len(r.failed[id]) == 0 {
			fmt.Fprintf(w, "%s fails: no test of it ran\n", id)
		}
		for _, name := range r.failed[id] {
			fmt.Fprintf(w, "%s fails: %s\n%s", id, name, strings.Join(r.output[name], ""))
		}
	}
	for _, p := range r.packages {
		fmt.Fprintf(w, "package %s failed\n", p)
		fmt.Fprint(w, strings.Join(r.output[p+" /"], ""))
	}
	for _, why := range slices.Sorted(maps.Keys(marked)) {
		fmt.Fprintf(w, "do not apply (%s): %s\n", why, strings.Join(marked[why], " "))
	}
	for _, what := range slices.Sorted(maps.Keys(waits)) {
		fmt.Fprintf(w, "wait for %s: %s\n", what, strings.Join(waits[what], " "))
	}
	if len(failed) > 0 {
		fmt.Fprintf(w, "fail: %s\n", strings.Join(failed, " "))
	}
	fmt.Fprintf(w, "cases: %d of %d pass, %d wait, %d fail\n", passed, len(rows), count(waits), len(failed))
	switch {
	case len(failed) > 0:
		return errors.New("not all cases pass")
	case len(r.packages) > 0:
		return errors.New("the cases pass, but not their packages")
	}
	return nil
}

func count(by map[string][]string) (n int) {
	for _, ids := range by {
		n += len(ids)
	}
	return n
}
