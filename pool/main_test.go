package pool

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(10 * time.Second); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "leaked goroutines:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked waits until only the test's own goroutine is left, and gives the stacks of the others if that
// takes longer than patience.
func leaked(patience time.Duration) string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !strings.Contains(g, "pool.leaked(") && !strings.Contains(g, "os/signal.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		select {
		case <-deadline.C:
			return strings.Join(left, "\n\n")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
