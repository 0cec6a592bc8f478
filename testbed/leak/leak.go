package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines have to end after the last test.
const patience = 10 * time.Second

// Main runs the tests of a package and exits: with their code, or with 1 if they pass and goroutines are left.
func Main(m *testing.M) {
	code := m.Run()
	if stacks := left(patience); code == 0 && stacks != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", stacks)
		code = 1
	}
	os.Exit(code)
}

// left waits for the goroutines of the tests to end and returns the stacks of those that do not.
func left(patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		buf := make([]byte, 4<<20)
		var stacks []string
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !expected(stack) {
				stacks = append(stacks, stack)
			}
		}
		if len(stacks) == 0 || time.Now().After(deadline) {
			return strings.Join(stacks, "\n\n")
		}
	}
}

// expected tells this package's own goroutine and those of the test binary: signals and fuzzing.
func expected(stack string) bool {
	for _, own := range []string{"testbed/leak.left(", "os/signal.", "runtime.ensureSigM", "testing.(*F)", "internal/fuzz."} {
		if strings.Contains(stack, own) {
			return true
		}
	}
	return false
}
