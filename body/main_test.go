package body_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails the run when goroutines outlive it.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines left over:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines that are still there after a bounded wait, or "".
func leaked() string {
	deadline := time.Now().Add(3 * time.Second)
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !expected(stack) {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}

func expected(stack string) bool {
	for _, part := range []string{"body_test.leaked(", "testing.(*F)", "os/signal.", "internal/fuzz.", "runtime.ensureSigM"} {
		if strings.Contains(stack, part) {
			return true
		}
	}
	return false
}
