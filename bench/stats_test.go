package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		samples []float64
		want    float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{5, 1, 100}, 5},
		{[]float64{4, 3, 2, 1}, 2.5},
	} {
		before := slices.Clone(c.samples)
		if got := median(c.samples); got != c.want {
			t.Errorf("the median of %v is %v, not %v", c.samples, got, c.want)
		}
		if !slices.Equal(before, c.samples) {
			t.Errorf("%v became %v", before, c.samples)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestQuantile(t *testing.T) {
	samples := []float64{50, 10, 30, 20, 40}
	for q, want := range map[float64]float64{0: 10, 0.25: 20, 0.5: 30, 0.99: 49.6, 1: 50} {
		if got := quantile(samples, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("the quantile %v is %v, not %v", q, got, want)
		}
	}
}

func TestRatios(t *testing.T) {
	if got, want := ratios([]float64{2, 9, 1}, []float64{4, 3}), []float64{0.5, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTwins(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	columns := [][]float64{{1, 2, 3}, {1, 2, 4}, {1, 2, 3}, {7, 8}, {7, 8}}
	if got, want := twins(names, columns), [][2]string{{"a", "c"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r := new(Report)
	r.suspectTwins("x", names, columns)
	if len(r.Problems) != 1 {
		t.Errorf("the problems are %q", r.Problems)
	}
}

// TestDifference wants what each MiB takes to be the difference of the two largest sizes.
func TestDifference(t *testing.T) {
	walls := func(us ...float64) *step {
		s := new(step)
		for _, w := range us {
			s.warm = append(s.warm, cost{wall: w})
		}
		return s
	}
	l := &ladder{way: "direct", rungs: []rung{{name: "x"}}, sizes: []int64{kib, mib, 4 * mib}, steps: map[string]map[int64]*step{
		"x": {kib: walls(10), mib: walls(100, 110, 120), 4 * mib: walls(410, 420, 300)},
	}}
	table := l.bySize("time", func(s *step, _ int64) []float64 { return each(s.warm, wallOf) })
	if got := table.Rows[0][4].Text; table.Columns[4] != "each MiB" || got != "100" {
		t.Errorf("each MiB takes %s in %v", got, table)
	}
}

// TestChoose wants the smallest value that cannot be told from the best one.
func TestChoose(t *testing.T) {
	plan := sweepPlan{pulls: []int{4 * kib, 16 * kib, 64 * kib, mib, 4 * mib}, size: mib}
	key := sweepKey{"direct", "h2"}
	for _, c := range []struct {
		name string
		cpu  []float64 // by value, and the middle one again
		want string
	}{
		{"smallest-in-noise", []float64{150, 104, 100, 99, 99, 107}, "16KiB`"},
		{"least-noise", []float64{150, 104, 101, 100, 103, 101}, "64KiB`"},
		{"too-noisy", []float64{150, 104, 101, 100, 103, 120}, "No recommendation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var costs [][]cost
			for _, cpu := range c.cpu {
				costs = append(costs, []cost{{cpu: cpu}})
			}
			table := choose(plan, []sweepKey{key}, map[sweepKey][][]cost{key: costs})
			if !strings.Contains(table.Note, c.want) {
				t.Errorf("the note is %q, want %s", table.Note, c.want)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20 0"))
	if err != nil || got != 2810*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1 2", "42 (x) S 1 2 3 4 5 6 7 8 9 10 x 31 0"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func TestMessageLength(t *testing.T) {
	for _, c := range []struct {
		begin string
		want  int
	}{
		{"HTTP/1.1 200 OK\r\nContent-Le", 0},
		{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", 49},
		{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", 49},
	} {
		if got, err := messageLength([]byte(c.begin)); err != nil || got != c.want {
			t.Errorf("%q: got %d, %v, want %d", c.begin, got, err, c.want)
		}
	}
	for _, bad := range []string{"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "SSH-2.0\r\n\r\n"} {
		if got, err := messageLength([]byte(bad)); err == nil {
			t.Errorf("%q has the length %d", bad, got)
		}
	}
}

func TestCheck(t *testing.T) {
	warm, fresh := cell{"testbed", "1.1", false, 1, kib}, cell{"testbed", "2", true, 1, kib}
	counts := func(h1, h2, tunnels, accepted int64) Counts {
		return Counts{Requests: map[string]int64{"HTTP/1.1": h1, "HTTP/2.0": h2}, Tunnels: tunnels, Accepted: accepted}
	}
	for _, c := range []struct {
		name  string
		cell  cell
		after Counts
		right bool
	}{
		{"warm", warm, counts(10, 0, 0, 0), true},
		{"warm-one-more", warm, counts(10, 0, 1, 1), true},
		{"warm-reconnects", warm, counts(10, 0, 3, 3), false},
		{"warm-h2", warm, counts(0, 10, 0, 0), false},
		{"warm-mixed", warm, counts(9, 1, 0, 0), false},
		{"warm-more-requests", warm, counts(11, 0, 0, 0), false},
		{"warm-direct", warm, counts(10, 0, 0, 1), false},
		{"fresh", fresh, counts(0, 10, 10, 10), true},
		{"fresh-reused", fresh, counts(0, 10, 9, 9), false},
		{"fresh-direct", fresh, counts(0, 10, 10, 11), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.cell.check(10, counts(0, 0, 0, 0), c.after); (err == nil) != c.right {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
