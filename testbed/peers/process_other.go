//go:build !linux

package peers

import (
	"os"
	"os/exec"
	"syscall"
)

func restrict(*exec.Cmd, string) error { return nil }

func signalGroup(p *os.Process, sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		_ = p.Kill()
		return
	}
	_ = p.Signal(sig)
}
