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

// sockets opens this host's own connections: to the first proxy, and to origins that are reached directly.
type sockets struct {
	dialer net.Dialer
}

const (
	defaultDialTimeout   = 3 * time.Second
	defaultProbeInterval = 30 * time.Second
)

func (t *Transport) provisionSockets() (*sockets, error) {
	s := &sockets{dialer: net.Dialer{
		Timeout:       orDefault(time.Duration(t.DialTimeout), defaultDialTimeout),
		FallbackDelay: time.Duration(t.FallbackDelay),
	}}
	probe := defaultProbeInterval
	if t.KeepAlive != nil {
		probe = orDefault(time.Duration(t.KeepAlive.ProbeInterval), probe)
	}
	s.dialer.KeepAlive = probe
	s.dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: probe > 0, Interval: probe}
	if err := s.setLocalAddress(t.LocalAddress); err != nil {
		return nil, err
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
		own := net.Dialer{Timeout: s.dialer.Timeout, FallbackDelay: s.dialer.FallbackDelay}
		s.dialer.Resolver = &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				server := servers[weakrand.IntN(len(servers))]
				return own.DialContext(ctx, server.Network, server.JoinHostPort(0))
			},
		}
	}
	return s, nil
}

func (s *sockets) setLocalAddress(local string) error {
	if local == "" {
		return nil
	}
	addr, err := caddy.ParseNetworkAddressWithDefaults(local, "tcp", 0)
	if err != nil {
		return fmt.Errorf("local_address: %w", err)
	}
	if addr.PortRangeSize() > 1 {
		return errors.New("local_address must be one address, not a range of ports")
	}
	switch addr.Network {
	case "tcp", "tcp4", "tcp6":
		s.dialer.LocalAddr, err = net.ResolveTCPAddr(addr.Network, addr.JoinHostPort(0))
	case "unix":
		s.dialer.LocalAddr, err = net.ResolveUnixAddr(addr.Network, addr.JoinHostPort(0))
	default:
		err = fmt.Errorf("network %s is not TCP", addr.Network)
	}
	if err != nil {
		return fmt.Errorf("local_address: %w", err)
	}
	return nil
}

// dial opens one connection. ctx bounds the dial only.
func (s *sockets) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.dialer.DialContext(ctx, network, addr)
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
