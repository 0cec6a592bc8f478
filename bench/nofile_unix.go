//go:build unix

package bench

import (
	"fmt"
	"syscall"
)

// fitting returns how many tunnels the limit of open files lets the peers carry: three sockets each. The Go runtime raises
// the limit to the highest allowed.
func fitting(tunnels int) (int, error) {
	const each, spare = 3, 200
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	if need := uint64(tunnels*each + spare); need > uint64(limit.Max) { //nolint:unconvert // it is signed on some systems
		return 0, fmt.Errorf("%d tunnels need %d open files, the limit is %d: ulimit -Hn", tunnels, need, limit.Max)
	}
	return tunnels, nil
}
