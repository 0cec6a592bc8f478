// Package bench measures what a tunnelled request costs: beside Caddy's own transport, and layer by layer.
//
// It is run by cmd/bench ('make bench', 'make bench-full'):
//
//	err := bench.Run(ctx, bench.Options{Peers: []string{exe, "peers"}, Caddy: "bin/caddy", Dir: "bench/results", Out: os.Stdout})
//
// The parts, each a report of its own: sidebyside (Caddy with `transport http` and with `transport tunnel`), ladder (the
// same bytes from the same origin over rungs that differ by one layer), sweep (pull_bytes), cap (max_body_bytes and
// decoding), memory (idle tunnels) and streams (body tiers in memory).
//
// How it measures: what is compared is measured in one run, in turns whose order alternates, and shown as the median of
// at least five with the lowest and the highest; beside it stands the null, the same thing measured against itself. Proxies
// and origins run in a process of their own, so that their CPU is not counted. After each sample the run checks that it
// measured what it says: how many tunnels were asked for, which protocol the origin saw, whether anything went around the
// proxy. A sample that fails a check is in no table. Two columns that agree exactly are reported as a mistake of the wiring.
//
// What it does not do: judge. No figure makes it fail. CPU times of processes come from /proc, so it needs Linux.
package bench
