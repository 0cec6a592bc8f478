package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options say what [Run] measures, with what, and where the results go.
type Options struct {
	// Peers is the command line of a program that calls [ServePeers] with its standard input and output. Required.
	Peers []string

	// Caddy is a Caddy with the tunnel transport. Required for the parts sidebyside and memory.
	Caddy string

	// Full measures everything, for hours; otherwise what matters most, in a few minutes.
	Full bool

	// Parts are the names of the parts to run; nil: all of them.
	Parts []string

	// Cells, if not nil, chooses lines of the side-by-side tables by names such as testbed/h1/warm/16/1024. They are printed,
	// but not written to Dir.
	Cells *regexp.Regexp

	// Dir is the folder that the results are written to; empty: none.
	Dir string

	// Out gets the tables. Required.
	Out io.Writer

	// Progress gets a line now and then; nil: none.
	Progress io.Writer

	plan plan
}

func (o *Options) progress(format string, args ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", args...)
	}
}

// A part measures one thing and writes what it found into the report.
type part struct {
	name, about string
	run         func(context.Context, *Report, *Options) error
}

func allParts() []part {
	return []part{
		{"sidebyside", "Caddy with its own `http` transport and with `tunnel`, through the same CONNECT proxy to the same TLS origin.", runSideBySide},
		{"ladder", "The same pages from the same origin over rungs that differ by one layer, without Caddy.", runLadder},
		{"sweep", "What `pull_bytes` does: one connection, HTTP over TLS, with the ceiling on each read of the socket changed.", runSweep},
		{"cap", "What `max_body_bytes` costs, and what decoding costs beside the decoder alone.", runCap},
		{"memory", "Live heap and stacks of a Caddy process for each idle TLS tunnel that it keeps, HTTP/1.1.", runMemory},
		{"streams", "Small chunks through each tier of body, in memory, on one goroutine unless it says otherwise.", runStreams},
	}
}

// PartNames returns the names of all parts, in the order in which they run.
func PartNames() []string {
	var names []string
	for _, p := range allParts() {
		names = append(names, p.name)
	}
	return names
}

// Run measures the parts and writes a report for each. The error joins what kept parts from being measured and the
// problems that reports name.
func Run(ctx context.Context, o Options) error {
	if o.plan.mode == "" {
		o.plan = quick()
		if o.Full {
			o.plan = full()
		}
	}
	for _, name := range o.Parts {
		if !slices.Contains(PartNames(), name) {
			return fmt.Errorf("bench: no part %q: there are %s", name, strings.Join(PartNames(), ", "))
		}
	}
	var errs []error
	for _, p := range allParts() {
		if len(o.Parts) > 0 && !slices.Contains(o.Parts, p.name) {
			continue
		}
		if err := o.runPart(ctx, p); err != nil {
			errs = append(errs, fmt.Errorf("bench %s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (o *Options) runPart(ctx context.Context, p part) error {
	o.progress("%s ...", p.name)
	start := time.Now()
	r := &Report{Name: p.name, About: p.about, Mode: o.plan.mode, Commit: commit(), Machine: thisMachine()}
	if err := p.run(ctx, r, o); err != nil {
		return err
	}
	o.progress("%s took %v", p.name, time.Since(start).Round(time.Second))
	if err := r.write(o.Out); err != nil {
		return err
	}
	fmt.Fprintln(o.Out)
	if o.Dir != "" && o.Cells == nil {
		if err := r.save(o.Dir); err != nil {
			return err
		}
	}
	if len(r.Problems) > 0 {
		return errors.New(strings.Join(r.Problems, "; "))
	}
	return nil
}
