package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/leak"
)

// TestMain is also the peers, for the tests that run them in a process of their own.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "peers" {
		if err := ServePeers(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}
