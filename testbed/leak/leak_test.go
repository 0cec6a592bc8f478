package leak

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeft checks that a goroutine that stays is found by name, in a bubble, where patience costs nothing.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		go forgotten(stop)
		if stacks := left(50 * time.Millisecond); !strings.Contains(stacks, "leak.forgotten(") {
			t.Errorf("not found:\n%s", stacks)
		}
		close(stop)
	})
}

func forgotten(stop chan struct{}) { <-stop }
