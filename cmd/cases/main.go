// Command cases runs the tests of docs/cases.md: situations that broke other proxies and clients, one by one.
//
//	go run ./cmd/cases                 all cases, and a line that says how many pass
//	go run ./cmd/cases -undo [ID ...]  undo each case's fix in turn, and see that its tests fail
//
// A case's tests are the subtests of a top-level test whose names begin with its id. It passes if there is one and all of
// them pass; one that is skipped has failed. What -undo changes is in the files undo/ID.undo (see undo.go), and is changed
// in a copy only. Run it in the root of the repository. The exit status is 1 if a case fails, or stays green when undone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	undoing := flag.Bool("undo", false, "undo the fixes of the cases named, or of all, and see their tests fail")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *undoing, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, undoing bool, ids []string) error {
	cases, err := readTable(".")
	if err != nil {
		return err
	}
	tests, err := findTests(".")
	if err != nil {
		return err
	}
	if undoing {
		return undoAll(ctx, ".", ids, tests)
	}
	results, err := goTest(ctx, ".", tests, "")
	if err != nil {
		return err
	}
	return report(os.Stdout, cases, results)
}
