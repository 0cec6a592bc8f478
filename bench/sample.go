package bench

import (
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

func wallOf(c cost) float64   { return c.wall }
func cpuOf(c cost) float64    { return c.cpu }
func allocsOf(c cost) float64 { return c.allocs }
func bytesOf(c cost) float64  { return c.bytes }
func readsOf(c cost) float64  { return c.reads }
func writesOf(c cost) float64 { return c.writes }
func fillOf(c cost) float64   { return c.fill }
