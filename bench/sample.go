package bench

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// A cost is what one request took, on average over a sample.
type cost struct {
	wall, cpu     float64 // µs; cpu is that of this process
	allocs, bytes float64 // of the heap
	reads, writes float64 // of sockets
	fill          float64 // bytes that a read of the socket brought
}

// sample fetches until enough time has gone by, at least twice, and returns the cost of one request.
func sample(f fetcher, counted *ioCounts, long time.Duration) (cost, error) {
	const fewest = 2
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	reads, writes, read := counted.reads.Load(), counted.writes.Load(), counted.bytes.Load()
	cpu, start := ownCPU(), time.Now()
	n := 0
	for ; n < fewest || time.Since(start) < long; n++ {
		if err := f.fetch(); err != nil {
			return cost{}, err
		}
	}
	wall, spent := time.Since(start), ownCPU()-cpu
	runtime.ReadMemStats(&after)
	per := func(total int64) float64 { return float64(total) / float64(n) }
	reads, writes = counted.reads.Load()-reads, counted.writes.Load()-writes
	return cost{
		wall:   per(wall.Nanoseconds()) / 1e3,
		cpu:    per(spent.Nanoseconds()) / 1e3,
		allocs: per(int64(after.Mallocs - before.Mallocs)),
		bytes:  per(int64(after.TotalAlloc - before.TotalAlloc)),
		reads:  per(reads),
		writes: per(writes),
		fill:   float64(counted.bytes.Load()-read) / float64(max(reads, 1)),
	}, nil
}

// alternate measures fetchers that take milliseconds: in each round one fetch of each is measured, in an order that
// alternates, again and again until each had its time, so that what else the machine does meets all of them alike. It returns
// the costs by fetcher and round, and closes the fetchers.
func alternate(ctx context.Context, rounds int, long time.Duration, fetchers ...fetcher) (costs [][]cost, err error) {
	defer func() {
		for _, f := range fetchers {
			err = errors.Join(err, f.close())
		}
	}()
	for _, f := range fetchers {
		if err := f.fetch(); err != nil { // the connection
			return nil, err
		}
	}
	costs = make([][]cost, len(fetchers))
	for range rounds {
		runtime.GC()
		sums := make([]cost, len(fetchers))
		n, start := 0, time.Now()
		for ; n < 2 || time.Since(start) < long*time.Duration(len(fetchers)); n++ {
			for i := range fetchers {
				if n%2 == 1 {
					i = len(fetchers) - 1 - i
				}
				c, err := one(fetchers[i])
				if err != nil {
					return nil, err
				}
				sums[i].wall += c.wall
				sums[i].cpu += c.cpu
				sums[i].allocs += c.allocs
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		for i, sum := range sums {
			costs[i] = append(costs[i], cost{wall: sum.wall / float64(n), cpu: sum.cpu / float64(n), allocs: sum.allocs / float64(n)})
		}
	}
	return costs, nil
}

// one is the cost of one fetch.
func one(f fetcher) (cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := ownCPU(), time.Now()
	err := f.fetch()
	wall, spent := time.Since(start), ownCPU()-cpu
	runtime.ReadMemStats(&after)
	return cost{
		wall:   float64(wall.Nanoseconds()) / 1e3,
		cpu:    float64(spent.Nanoseconds()) / 1e3,
		allocs: float64(after.Mallocs - before.Mallocs),
	}, err
}

func wallOf(c cost) float64   { return c.wall }
func cpuOf(c cost) float64    { return c.cpu }
func allocsOf(c cost) float64 { return c.allocs }
func bytesOf(c cost) float64  { return c.bytes }
func readsOf(c cost) float64  { return c.reads }
func writesOf(c cost) float64 { return c.writes }
func fillOf(c cost) float64   { return c.fill }
