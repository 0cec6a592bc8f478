//go:build !unix

package caddymodule

import "testing"

// closedAddr is the address of a port that refuses connections.
func closedAddr(t *testing.T) string { return freeAddr(t) }

// blackhole is the address of a port that answers nobody; none can be made here.
func blackhole(*testing.T) string { return "" }
