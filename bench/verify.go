package bench

import (
	"context"
	"fmt"
	"maps"
	"net"
)

// observe returns what the peers and the cell's origin saw so far.
func (s *sideBySide) observe(ctx context.Context, c cell) (Counts, error) {
	counts, err := s.peers.counts(ctx)
	if c.origin != "nginx" {
		s.asked = 0
		if s.nginx != nil {
			s.asked = s.nginx.logged()
		}
		return counts, err
	}
	counts.Requests = maps.Clone(s.nginx.requests(s.asked))
	s.asked = s.nginx.logged()
	return counts, err
}

func (c Counts) requests() (n int64) {
	for _, k := range c.Requests {
		n += k
	}
	return n
}

// check compares what the peers saw during a sample of n requests with what the cell says.
func (c cell) check(n int64, before, after Counts) error {
	spoken := after.Requests[c.protocol()] - before.Requests[c.protocol()]
	all := after.requests() - before.requests()
	tunnels := after.Tunnels - before.Tunnels
	accepted := after.Accepted - before.Accepted
	// A client that asks again before its connection is back among the idle ones makes another, which then idles too.
	mostWarm := 2*int64(c.clients) + n/100
	switch {
	case n == 0:
		return fmt.Errorf("no request")
	case all != n:
		return fmt.Errorf("the origin saw %d requests, not the %d that were sent", all, n)
	case spoken != n:
		return fmt.Errorf("the origin saw %d of %d requests over %s", spoken, n, c.protocol())
	case c.fresh && tunnels != n:
		return fmt.Errorf("%d tunnels for %d requests on fresh connections", tunnels, n)
	case !c.fresh && tunnels > mostWarm:
		return fmt.Errorf("%d tunnels during %d requests on warm connections", tunnels, n)
	case c.origin == "testbed" && accepted != tunnels:
		return fmt.Errorf("the origin accepted %d connections, %d came out of the proxy", accepted, tunnels)
	}
	return nil
}

// named is an address of this host under the name that the origins' certificates carry, which the testbed's proxies know.
func named(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return net.JoinHostPort(originName, port)
}

// originName is in the certificates of all origins.
const originName = "origin.test"
