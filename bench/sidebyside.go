package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/peers"
)

// A cell is one line of the side-by-side tables.
type cell struct {
	origin  string // testbed or nginx
	proto   string // 1.1 or 2
	fresh   bool
	clients int
	size    int64
}

func (c cell) String() string {
	mode := "warm"
	if c.fresh {
		mode = "fresh"
	}
	return fmt.Sprintf("%s/h%s/%s/%d/%d", c.origin, c.proto[:1], mode, c.clients, c.size)
}

// protocol is what origins call the cell's HTTP version.
func (c cell) protocol() string {
	if c.proto == "2" {
		return "HTTP/2.0"
	}
	return "HTTP/1.1"
}

// arms are the Caddy processes that are compared: the first is the measure of the others, the last is the null.
var arms = []struct{ name, transport string }{
	{"http", "http"}, {"tunnel", "tunnel"}, {"http again", "http"},
}

// A caddySample is what one arm did in one turn.
type caddySample struct {
	cpu        float64 // µs per request of the Caddy process
	throughput float64 // requests per second
	p50, p99   float64 // ms
	resumed    float64 // part of the requests on resumed TLS sessions; nginx does not tell
}

// sideBySide runs Caddy with each transport.
type sideBySide struct {
	plan   sidePlan
	peers  *peerProcess
	nginx  *nginx // nil: none
	caddys []*caddyProcess
	report *Report
	asked  int64 // requests that nginx has to have logged by now
}

func runSideBySide(ctx context.Context, r *Report, o *Options) (err error) {
	s := &sideBySide{plan: o.plan.side, report: r}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.start(ctx, o); err != nil {
		return err
	}
	results := map[cell][][]caddySample{}
	var measured []cell
	for _, c := range s.plan.cells {
		if c.origin == "nginx" && s.nginx == nil || o.Cells != nil && !o.Cells.MatchString(c.String()) {
			continue
		}
		o.progress("%s", c)
		samples, err := s.measure(ctx, c)
		if ctx.Err() != nil {
			r.problem("interrupted at %s", c)
			break
		}
		if err != nil {
			r.problem("%s: %v", c, err)
			continue
		}
		results[c] = samples
		measured = append(measured, c)
	}
	if len(measured) == 0 && len(r.Problems) == 0 {
		return errors.New("no cell has such a name")
	}
	s.tabulate(measured, results)
	return nil
}

// start runs the peers and a Caddy for each arm, with a port for each origin, protocol and mode.
func (s *sideBySide) start(ctx context.Context, o *Options) (err error) {
	if s.peers, err = startPeers(ctx, o.Peers); err != nil {
		return err
	}
	ca := s.peers.CA
	var sizes []int64
	for _, c := range s.plan.cells {
		if c.origin == "nginx" && !slices.Contains(sizes, c.size) {
			sizes = append(sizes, c.size)
		}
	}
	if len(sizes) > 0 {
		s.nginx, err = startNginx(ctx, sizes)
		if missing, ok := errors.AsType[*peers.MissingError](err); ok {
			s.report.problem("the tables with nginx are missing: %v", missing)
		} else if err != nil {
			return err
		} else {
			ca += string(s.nginx.CA.PEM)
		}
	}
	config := caddyConfig{proxy: s.peers.Connect, ca: ca, idle: 100}
	seen := map[site]bool{}
	for _, c := range s.plan.cells {
		if at := s.siteOf(c); at.origin != "" && !seen[at] {
			seen[at] = true
			config.sites = append(config.sites, at)
		}
	}
	for _, arm := range arms {
		config.transport = arm.transport
		caddy, err := startCaddy(ctx, o.Caddy, config)
		if err != nil {
			return err
		}
		s.caddys = append(s.caddys, caddy)
	}
	return nil
}

func (s *sideBySide) stop() error {
	var errs []error
	for _, c := range s.caddys {
		errs = append(errs, c.stop())
	}
	if s.nginx != nil {
		s.nginx.Stop()
	}
	if s.peers != nil {
		errs = append(errs, s.peers.stop())
	}
	return errors.Join(errs...)
}

// siteOf is the way through Caddy that a cell takes; no origin: there is none.
func (s *sideBySide) siteOf(c cell) site {
	addr := s.peers.TLS
	if c.origin == "nginx" {
		if s.nginx == nil {
			return site{}
		}
		addr = s.nginx.TLS
	}
	return site{named(addr), c.proto, c.fresh}
}

func (s *sideBySide) path(c cell) string {
	if c.origin == "nginx" {
		return s.nginx.path(c.size)
	}
	return fmt.Sprintf("/page/%d", c.size)
}

// measure takes the samples of a cell, by arm. In each round all arms have a turn, every second round in reverse.
func (s *sideBySide) measure(ctx context.Context, c cell) ([][]caddySample, error) {
	samples := make([][]caddySample, len(arms))
	for round := range s.plan.rounds {
		for turn := range arms {
			arm := turn
			if round%2 == 1 {
				arm = len(arms) - 1 - turn
			}
			sample, err := s.turn(ctx, c, s.caddys[arm], round == 0)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", arms[arm].name, err)
			}
			samples[arm] = append(samples[arm], sample)
		}
	}
	return samples, nil
}

// turn is one sample of one arm: it ends when the Caddy process has used enough CPU, or enough time is over.
func (s *sideBySide) turn(ctx context.Context, c cell, caddy *caddyProcess, first bool) (sample caddySample, err error) {
	l := load{addr: caddy.sites[s.siteOf(c)], path: s.path(c), size: c.size, clients: c.clients}
	clients, err := l.dial(ctx)
	if err != nil {
		return sample, err
	}
	defer closeAll(clients)
	if first {
		if err := clients[0].verify(); err != nil {
			return sample, err
		}
		s.asked++
	}
	if err := repeat(clients, s.plan.warmup); err != nil {
		return sample, err
	}
	s.asked += int64(len(take(clients)))
	before, err := s.observe(ctx, c)
	if err != nil {
		return sample, err
	}
	cpu, elapsed, err := s.spend(ctx, clients, caddy)
	if err != nil {
		return sample, err
	}
	latencies := take(clients)
	n := float64(len(latencies))
	s.asked += int64(len(latencies))
	seen, err := s.observe(ctx, c)
	if err != nil {
		return sample, err
	}
	if err := c.check(int64(n), before, seen); err != nil {
		return sample, err
	}
	return caddySample{
		cpu:        float64(cpu.Microseconds()) / n,
		throughput: n / elapsed.Seconds(),
		p50:        quantile(latencies, 0.5),
		p99:        quantile(latencies, 0.99),
		resumed:    float64(seen.Resumed-before.Resumed) / n,
	}, nil
}

// spend runs the load until the Caddy process has used the CPU that the plan wants, and returns what it used and took.
func (s *sideBySide) spend(ctx context.Context, clients []*loadClient, caddy *caddyProcess) (cpu, elapsed time.Duration, err error) {
	start := time.Now()
	before, err := caddy.cpu()
	if err != nil {
		return 0, 0, err
	}
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() { ended <- run(clients, 3, &stop) }()
	for !stop.Load() {
		select {
		case err := <-ended:
			return 0, 0, errors.Join(err, errors.New("the clients ended too early"))
		case <-ctx.Done():
			stop.Store(true)
		case <-time.After(clockTick):
		}
		now, err := caddy.cpu()
		if err != nil || now-before >= s.plan.cpu || time.Since(start) >= s.plan.longest {
			stop.Store(true)
		}
	}
	if err := <-ended; err != nil {
		return 0, 0, err
	}
	elapsed = time.Since(start)
	after, err := caddy.cpu()
	return after - before, elapsed, err
}
