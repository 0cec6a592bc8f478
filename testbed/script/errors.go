package script

import "fmt"

// A departure is a step that went otherwise than the script says.
type departure struct {
	step *step
	err  error
}

func (d *departure) Error() string {
	return fmt.Sprintf("line %d, %q: %v", d.step.line, d.step.text, d.err)
}

func (d *departure) Unwrap() error { return d.err }
