package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A sweepKey is a way and a protocol that pull_bytes is swept on.
type sweepKey struct{ way, proto string }

func (k sweepKey) String() string {
	return k.way + ", " + map[string]string{"http/1.1": "h1c", "h2": "h2c"}[k.proto]
}

func runSweep(ctx context.Context, r *Report, o *Options) (err error) {
	p, err := startPeers(ctx, o.Peers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	plan := o.plan.sweep
	results := map[sweepKey][][]cost{} // by value of pull_bytes; the last is the null: the first one again
	var keys []sweepKey
	for _, w := range p.ways()[:2] {
		for _, proto := range []string{"http/1.1", "h2"} {
			key := sweepKey{w.name, proto}
			o.progress("sweep, %s", key)
			costs, err := sweep(ctx, newPath(w, p), proto, plan)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			keys = append(keys, key)
			results[key] = costs
			r.Tables = append(r.Tables, sweepTable(key, plan, costs))
			var names []string
			var columns [][]float64
			for i, pull := range withNull(plan.pulls) {
				names = append(names, fmt.Sprint(sizeName(int64(pull)), " at ", i))
				columns = append(columns, each(costs[i], wallOf))
				if fill := slices.Max(each(costs[i], fillOf)); fill > float64(pull) {
					r.problem("%s: reads bring %.0f bytes where at most %d were to be asked for", key, fill, pull)
				}
			}
			r.suspectTwins(key.String(), names, columns)
		}
	}
	r.Tables = append(r.Tables, choose(plan, keys, results))
	return nil
}

// withNull is the values, and the middle one again.
func withNull(pulls []int) []int { return append(append([]int(nil), pulls...), pulls[len(pulls)/2]) }

// sweep measures one page with each value, in turns, in every second round in reverse. Each turn is on a new connection.
func sweep(ctx context.Context, p *path, proto string, plan sweepPlan) ([][]cost, error) {
	pulls := withNull(plan.pulls)
	costs := make([][]cost, len(pulls))
	open := openEngine(proto)
	for round := range plan.rounds {
		for i := range pulls {
			if round%2 == 1 {
				i = len(pulls) - 1 - i
			}
			p.pull = pulls[i]
			f := open(ctx, p, page{size: plan.size})
			err := f.fetch()
			if err == nil {
				var c cost
				c, err = sample(f, &p.io, plan.sample)
				costs[i] = append(costs[i], c)
			}
			if err := errors.Join(err, f.close()); err != nil {
				return nil, err
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return costs, nil
}

func sweepTable(key sweepKey, plan sweepPlan, costs [][]cost) Table {
	t := Table{
		Title:   fmt.Sprintf("%s, pages of %s", key, sizeName(plan.size)),
		Columns: []string{"pull_bytes", "socket reads", "KiB a read", "MB/s", "CPU µs for each MiB", "CPU / that of the middle"},
	}
	pulls := withNull(plan.pulls)
	null := len(pulls) - 1
	middle := costs[len(plan.pulls)/2]
	for i, pull := range pulls {
		name := sizeName(int64(pull))
		if i == null {
			name += " again"
		}
		t.add(label("%s", name), figure(each(costs[i], readsOf)), figure(each(costs[i], func(c cost) float64 { return c.fill / kib })),
			figure(each(costs[i], func(c cost) float64 { return float64(plan.size) / c.wall })),
			figure(each(costs[i], func(c cost) float64 { return c.cpu * mib / float64(plan.size) })),
			ratio(ratios(each(costs[i], cpuOf), each(middle, cpuOf))))
	}
	return t
}

// choose recommends the smallest value whose CPU, on average over all ways and protocols, is not farther from the best than
// the same value is from itself.
func choose(plan sweepPlan, keys []sweepKey, results map[sweepKey][][]cost) Table {
	const finest, coarsest = 0.02, 0.10 // differences that are never, and always, taken for noise
	t := Table{Title: "CPU of each value / CPU of the best one, medians", Columns: []string{"pull_bytes"}}
	pulls := withNull(plan.pulls)
	average := make([]float64, len(pulls))
	rows := make([][]Cell, len(pulls))
	for _, key := range keys {
		t.Columns = append(t.Columns, key.String())
		var cpus []float64
		for i := range pulls {
			cpus = append(cpus, median(each(results[key][i], cpuOf)))
		}
		best := slices.Min(cpus)
		for i, cpu := range cpus {
			average[i] += cpu / best / float64(len(keys))
			rows[i] = append(rows[i], label("%.2f", cpu/best))
		}
	}
	t.Columns = append(t.Columns, "average")
	null, middle := len(plan.pulls), len(plan.pulls)/2
	for i, pull := range pulls {
		name := sizeName(int64(pull))
		if i == null {
			name += " again"
		}
		t.add(append(append([]Cell{label("%s", name)}, rows[i]...), label("%.2f", average[i]))...)
	}
	noise := max(finest, math.Abs(average[null]/average[middle]-1))
	if noise > coarsest {
		t.Note = fmt.Sprintf("No recommendation: the same value measured twice differs by %.0f %%.", 100*noise)
		return t
	}
	least := slices.Min(average[:null])
	chosen := slices.IndexFunc(average[:null], func(a float64) bool { return a <= least*(1+noise) })
	t.Note = fmt.Sprintf("Recommended: `pull_bytes %s`, the smallest value whose average is within %.0f %% of the best one; the same value measured twice differs by %.1f %%.",
		strings.ReplaceAll(sizeName(int64(plan.pulls[chosen])), " ", ""), 100*noise, 100*math.Abs(average[null]/average[middle]-1))
	return t
}
