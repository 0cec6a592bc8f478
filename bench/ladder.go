package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A step is what a rung did with pages of one size: costs on a warm connection, and µs from nothing to the end of the
// first page, both in the order of rounds.
type step struct {
	warm   []cost
	firsts []float64
}

// A ladder is the steps of one way, by rung and size.
type ladder struct {
	way   string
	rungs []rung
	sizes []int64
	steps map[string]map[int64]*step
}

func runLadder(ctx context.Context, r *Report, o *Options) (err error) {
	p, err := startPeers(ctx, o.Peers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	for _, w := range p.ways() {
		o.progress("ladder, %s", w.name)
		before, err := p.counts(ctx)
		if err != nil {
			return err
		}
		l, err := climb(ctx, newPath(w, p), o.plan.ladder)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		after, err := p.counts(ctx)
		if err != nil {
			return err
		}
		l.tabulate(r)
		l.check(r, before, after)
	}
	return nil
}

// climb measures all rungs, in turns, in every second round in reverse.
func climb(ctx context.Context, p *path, plan ladderPlan) (*ladder, error) {
	l := &ladder{way: p.name, rungs: rungs(), sizes: plan.sizes, steps: map[string]map[int64]*step{}}
	for _, r := range l.rungs {
		l.steps[r.name] = map[int64]*step{}
	}
	for _, size := range plan.sizes {
		for round := range plan.rounds {
			for turn := range l.rungs {
				if round%2 == 1 {
					turn = len(l.rungs) - 1 - turn
				}
				r := l.rungs[turn]
				s := l.steps[r.name][size]
				if s == nil {
					s = new(step)
					l.steps[r.name][size] = s
				}
				if err := s.measure(ctx, p, r, size, plan); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", r.name, sizeName(size), err)
				}
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
			}
		}
	}
	return l, nil
}

// measure is one turn: some first requests, and many on the last one's connection.
func (s *step) measure(ctx context.Context, p *path, r rung, size int64, plan ladderPlan) error {
	for i := range plan.firsts {
		f := r.open(ctx, p, page{size, r.coding})
		start := time.Now()
		err := f.fetch()
		first := time.Since(start)
		if err == nil && i == plan.firsts-1 {
			var c cost
			c, err = sample(f, &p.io, plan.sample)
			s.warm = append(s.warm, c)
		}
		if err := errors.Join(err, f.close()); err != nil {
			return err
		}
		s.firsts = append(s.firsts, float64(first.Nanoseconds())/1e3)
	}
	return nil
}

// check compares what the peers saw with what the ladder says.
func (l *ladder) check(r *Report, before, after Counts) {
	var opened int64
	for _, rung := range l.rungs {
		for _, size := range l.sizes {
			opened += int64(len(l.steps[rung.name][size].firsts))
		}
	}
	tunnels, accepted := after.Tunnels-before.Tunnels, after.Accepted-before.Accepted
	want := opened
	if l.way == "direct" {
		want = 0
	}
	if tunnels != want || accepted != opened {
		r.problem("%s: %d tunnels and %d connections at the origin, want %d and %d", l.way, tunnels, accepted, want, opened)
	}
	if after.Requests["HTTP/2.0"] == before.Requests["HTTP/2.0"] || after.Resumed == before.Resumed {
		r.problem("%s: the origin saw no HTTP/2, or no TLS session was resumed", l.way)
	}
	var names []string
	var columns [][]float64
	for _, rung := range l.rungs {
		var column []float64
		for _, size := range l.sizes {
			column = append(column, each(l.steps[rung.name][size].warm, wallOf)...)
		}
		names, columns = append(names, rung.name), append(columns, column)
	}
	r.suspectTwins(l.way, names, columns)
}
