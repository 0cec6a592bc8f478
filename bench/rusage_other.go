//go:build !unix

package bench

import "time"

// ownCPU is not known on this system.
func ownCPU() time.Duration { return 0 }
