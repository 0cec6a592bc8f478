//go:build unix

package bench

import (
	"syscall"
	"time"
)

// ownCPU returns the CPU time that this process has used so far, user and system.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
