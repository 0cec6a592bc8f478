//go:build !unix

package caddymodule

import (
	"net"
	"testing"
)

// closedAddr is the address of a port that refuses connections.
func closedAddr(t *testing.T) string { return freeAddr(t) }

// blackhole is the address of a port that answers nobody; none can be made here.
func blackhole(*testing.T) string { return "" }

// freeAddr is an address for Caddy to listen on, unless somebody else comes first.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
