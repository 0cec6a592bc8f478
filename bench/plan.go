package bench

import "time"

// A plan is how much each part measures.
type plan struct {
	mode    string
	side    sidePlan
	ladder  ladderPlan
	sweep   sweepPlan
	cap     capPlan
	memory  memoryPlan
	streams streamPlan
}

type sidePlan struct {
	cells   []cell
	rounds  int
	warmup  int           // requests of each client before a sample
	cpu     time.Duration // of the Caddy process, for one sample
	longest time.Duration // of a sample
}

type ladderPlan struct {
	sizes  []int64
	rounds int
	sample time.Duration // of one rung in one round
	firsts int           // first requests of one rung in one round
}

type sweepPlan struct {
	pulls  []int
	size   int64
	rounds int
	sample time.Duration
}

type capPlan struct {
	size    int64
	rounds  int
	sample  time.Duration
	codings []string
}

type memoryPlan struct {
	tunnels []int
	sizes   []int64
	rounds  int
}

type streamPlan struct {
	size    int64
	chunk   int
	rounds  int
	sample  time.Duration
	codings []string
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

func quick() plan {
	sizes := []int64{kib, 64 * kib, mib, 4 * mib}
	side := sidePlan{rounds: 5, warmup: 5, cpu: 300 * time.Millisecond, longest: 3 * time.Second}
	for _, proto := range []string{"1.1", "2"} {
		for _, size := range []int64{kib, 64 * kib, mib} {
			side.cells = append(side.cells, cell{"testbed", proto, false, 1, size})
		}
		side.cells = append(side.cells,
			cell{"testbed", proto, false, 16, kib},
			cell{"testbed", proto, true, 1, kib},
			cell{"nginx", proto, false, 1, kib},
			cell{"nginx", proto, false, 1, mib})
	}
	return plan{
		mode:    "quick",
		side:    side,
		ladder:  ladderPlan{sizes: sizes, rounds: 5, sample: 40 * time.Millisecond, firsts: 3},
		sweep:   sweepPlan{pulls: pulls(), size: 4 * mib, rounds: 7, sample: 100 * time.Millisecond},
		cap:     capPlan{size: 4 * mib, rounds: 20, sample: 50 * time.Millisecond, codings: []string{"gzip"}},
		memory:  memoryPlan{tunnels: []int{1000}, sizes: []int64{kib, mib}, rounds: 5},
		streams: streamPlan{size: 100 * mib, chunk: kib, rounds: 5, sample: 100 * time.Millisecond, codings: []string{"gzip"}},
	}
}

func full() plan {
	sizes := []int64{kib, 16 * kib, 64 * kib, 256 * kib, mib, 4 * mib}
	codings := []string{"gzip", "deflate", "br", "zstd"}
	side := sidePlan{rounds: 5, warmup: 20, cpu: 2 * time.Second, longest: time.Minute}
	for _, origin := range []string{"testbed", "nginx"} {
		for _, fresh := range []bool{false, true} {
			for _, proto := range []string{"1.1", "2"} {
				for _, clients := range []int{1, 16} {
					for _, size := range sizes {
						side.cells = append(side.cells, cell{origin, proto, fresh, clients, size})
					}
				}
			}
		}
	}
	return plan{
		mode:    "full",
		side:    side,
		ladder:  ladderPlan{sizes: sizes, rounds: 11, sample: 300 * time.Millisecond, firsts: 10},
		sweep:   sweepPlan{pulls: pulls(), size: 4 * mib, rounds: 11, sample: 500 * time.Millisecond},
		cap:     capPlan{size: 4 * mib, rounds: 40, sample: 500 * time.Millisecond, codings: codings},
		memory:  memoryPlan{tunnels: []int{1000, 5000}, sizes: []int64{kib, mib}, rounds: 5},
		streams: streamPlan{size: 100 * mib, chunk: kib, rounds: 11, sample: time.Second, codings: codings},
	}
}

// pulls are the values of pull_bytes that are swept: powers of two from 4 KiB to 1 MiB.
func pulls() (all []int) {
	for n := 4 * kib; n <= mib; n *= 2 {
		all = append(all, n)
	}
	return all
}
