package caddymodule

import (
	"context"
	"errors"
	"fmt"
	weakrand "math/rand/v2"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	defaultDialTimeout   = 3 * time.Second
	defaultProbeInterval = 30 * time.Second
)

// provisionSockets makes what opens this host's own connections: to the first proxy, and to origins that are reached
// directly.
func (t *Transport) provisionSockets() (*net.Dialer, error) {
	d := &net.Dialer{
		Timeout:       orDefault(time.Duration(t.DialTimeout), defaultDialTimeout),
		FallbackDelay: time.Duration(t.FallbackDelay),
	}
	probe := defaultProbeInterval
	if t.KeepAlive != nil {
		probe = orDefault(time.Duration(t.KeepAlive.ProbeInterval), probe)
	}
	d.KeepAlive = probe
	d.KeepAliveConfig = net.KeepAliveConfig{Enable: probe > 0, Interval: probe}
	var err error
	if d.LocalAddr, err = localAddr(t.LocalAddress); err != nil {
		return nil, fmt.Errorf("local_address: %w", err)
	}
	if t.Resolver != nil {
		if len(t.Resolver.Addresses) == 0 {
			return nil, errors.New("resolver needs at least one address")
		}
		var servers []caddy.NetworkAddress
		for _, a := range t.Resolver.Addresses {
			addr, err := caddy.ParseNetworkAddressWithDefaults(a, "udp", 53)
			if err != nil {
				return nil, fmt.Errorf("resolver %s: %w", a, err)
			}
			if addr.PortRangeSize() != 1 {
				return nil, fmt.Errorf("resolver %s: it must be one address, not a range of ports", a)
			}
			servers = append(servers, addr)
		}
		own := net.Dialer{Timeout: d.Timeout, FallbackDelay: d.FallbackDelay}
		d.Resolver = &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				server := servers[weakrand.IntN(len(servers))] //nolint:gosec // any will do
				return own.DialContext(ctx, server.Network, server.JoinHostPort(0))
			},
		}
	}
	return d, nil
}

// localAddr parses the address that connections are made from; nil is any.
func localAddr(local string) (net.Addr, error) {
	if local == "" {
		return nil, nil
	}
	addr, err := caddy.ParseNetworkAddressWithDefaults(local, "tcp", 0)
	if err != nil {
		return nil, err
	}
	if addr.PortRangeSize() > 1 {
		return nil, errors.New("it must be one address, not a range of ports")
	}
	switch addr.Network {
	case "tcp", "tcp4", "tcp6":
		return net.ResolveTCPAddr(addr.Network, addr.JoinHostPort(0))
	}
	return nil, fmt.Errorf("%s is not a TCP address", addr.Network)
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
