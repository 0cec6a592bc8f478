package peers

import (
	"fmt"
	"os/exec"
)

// A MissingError says that a program is not installed. It unwraps to [exec.ErrNotFound].
type MissingError struct {
	Program Program
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("real peer %s is not installed: 'make peers' installs it (Debian package %s)", e.Program.Name, e.Program.Package)
}

func (e *MissingError) Unwrap() error { return exec.ErrNotFound }

// A StartError says that a program ended, or did not listen in time. Log is what it had printed.
type StartError struct {
	Name string
	Err  error
	Log  string
}

func (e *StartError) Error() string {
	return fmt.Sprintf("real peer %s did not start: %v; it printed:\n%s", e.Name, e.Err, e.Log)
}

func (e *StartError) Unwrap() error { return e.Err }
