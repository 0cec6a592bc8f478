package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// An idleCost is what a Caddy process holds for each idle tunnel, in bytes.
type idleCost struct {
	heap, stacks float64
}

func (c idleCost) both() float64 { return c.heap + c.stacks }

func runMemory(ctx context.Context, r *Report, o *Options) error {
	plan := o.plan.memory
	t := Table{
		Title: "KiB for each idle tunnel",
		Columns: []string{"tunnels, after a body of", "http heap", "http stacks", "http both", "tunnel heap", "tunnel stacks", "tunnel both",
			"ratio", "null"},
		Note: "After collections, with all clients gone; less what the process held with one tunnel. Ratios are tunnel / http, the null is http / http in another process.",
	}
	columns := make([][]float64, len(arms))
	for _, tunnels := range plan.tunnels {
		tunnels, err := fitting(tunnels)
		if err != nil {
			r.problem("%v", err)
			continue
		}
		costs := make([][][]idleCost, len(plan.sizes)) // by size and arm
		for i := range costs {
			costs[i] = make([][]idleCost, len(arms))
		}
		for round := range plan.rounds {
			for turn := range arms {
				if round%2 == 1 {
					turn = len(arms) - 1 - turn
				}
				o.progress("memory: %d tunnels, %s", tunnels, arms[turn].name)
				bySize, err := measureIdle(ctx, o, arms[turn].transport, tunnels, plan.sizes)
				if err != nil {
					return fmt.Errorf("%d tunnels, %s: %w", tunnels, arms[turn].name, err)
				}
				for i, c := range bySize {
					costs[i][turn] = append(costs[i][turn], c)
				}
			}
		}
		for i, size := range plan.sizes {
			t.add(idleRow(tunnels, size, costs[i])...)
			for arm := range arms {
				columns[arm] = append(columns[arm], each(costs[i][arm], idleCost.both)...)
			}
		}
	}
	names := make([]string, len(arms))
	for i, arm := range arms {
		names[i] = arm.name
	}
	r.suspectTwins("memory", names, columns)
	r.Tables = append(r.Tables, t)
	return nil
}

func idleRow(tunnels int, size int64, costs [][]idleCost) []Cell {
	row := []Cell{label("%d, %s", tunnels, sizeName(size))}
	for _, arm := range costs[:2] {
		row = append(row,
			figure(each(arm, func(c idleCost) float64 { return c.heap / kib })),
			figure(each(arm, func(c idleCost) float64 { return c.stacks / kib })),
			figure(each(arm, func(c idleCost) float64 { return c.both() / kib })))
	}
	http, tunnel, again := each(costs[0], idleCost.both), each(costs[1], idleCost.both), each(costs[2], idleCost.both)
	return append(row, ratio(ratios(tunnel, http)), ratio(ratios(again, http)))
}

// measureIdle opens tunnels in a new Caddy process and lets a body of each size, ascending, through all of them at once. After
// each it lets them idle and asks what the process holds.
func measureIdle(ctx context.Context, o *Options, transport string, tunnels int, sizes []int64) (costs []idleCost, err error) {
	p, err := startPeers(ctx, o.Peers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	at := site{origin: named(p.TLS), proto: "1.1"}
	caddy, err := startCaddy(ctx, o.Caddy, caddyConfig{
		transport: transport, proxy: p.Connect, ca: p.CA, idle: 2 * tunnels, flush: true, sites: []site{at},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, caddy.stop()) }()
	idle := func(n int, size int64) (heap, stacks int64, err error) {
		l := load{addr: caddy.sites[at], path: fmt.Sprintf("/hold/%d", size), size: size, clients: n}
		if err := l.hold(ctx, p); err != nil {
			return 0, 0, err
		}
		heap, stacks, err = caddy.memory(ctx)
		if err != nil {
			return 0, 0, err
		}
		counts, err := p.counts(ctx)
		if err == nil && (counts.Open != n || counts.Tunnels != int64(n) || counts.Requests["HTTP/2.0"] != 0) {
			err = fmt.Errorf("%d tunnels are open and %d were asked for, not %d", counts.Open, counts.Tunnels, n)
		}
		return heap, stacks, err
	}
	heap1, stacks1, err := idle(1, sizes[0])
	if err != nil {
		return nil, err
	}
	for _, size := range sizes {
		heap, stacks, err := idle(tunnels, size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sizeName(size), err)
		}
		more := float64(tunnels - 1)
		costs = append(costs, idleCost{float64(heap-heap1) / more, float64(stacks-stacks1) / more})
	}
	return costs, nil
}

// hold has all clients get the same page but for its last byte, then the last byte of all, and go.
func (l load) hold(ctx context.Context, p *peerProcess) error {
	const atOnce = 32
	clients, err := l.dial(ctx)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	bodies := make([]io.ReadCloser, len(clients))
	errs := make([]error, len(clients))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, c := range clients {
		slots <- struct{}{}
		wg.Go(func() {
			bodies[i], errs[i] = c.allButLast()
			<-slots
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	counts, err := p.counts(ctx)
	if err != nil {
		return err
	}
	if counts.Held != len(clients) {
		return fmt.Errorf("the origin holds %d responses, not %d", counts.Held, len(clients))
	}
	if err := p.releaseHeld(ctx); err != nil {
		return err
	}
	for _, b := range bodies {
		if n, err := io.Copy(io.Discard, b); err != nil || n != 1 {
			return errors.Join(err, fmt.Errorf("%d bytes came at the end, not 1", n))
		}
		b.Close()
	}
	closeAll(clients)
	time.Sleep(200 * time.Millisecond) // Caddy notices in its own time that they have gone
	return nil
}

// allButLast asks for the page and reads it up to its last byte.
func (c *loadClient) allButLast() (io.ReadCloser, error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK || res.ContentLength != c.size {
		res.Body.Close()
		return nil, fmt.Errorf("the answer is %s with Content-Length %d", res.Status, res.ContentLength)
	}
	_, err = io.CopyN(io.Discard, res.Body, c.size-1)
	return res.Body, err
}
