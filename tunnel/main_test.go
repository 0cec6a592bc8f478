package tunnel

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

// leaked waits until only its own goroutine is left, and returns the stacks of the others if that takes too long.
func leaked(patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; {
		buf := make([]byte, 1<<20)
		var left []string
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !strings.Contains(g, "tunnel.leaked(") && !strings.Contains(g, "os/signal.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		<-time.After(5 * time.Millisecond)
	}
}
