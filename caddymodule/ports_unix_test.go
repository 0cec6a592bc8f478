//go:build unix

package caddymodule

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// closedAddr is the address of a port that refuses connections. It is held, so that nobody else gets it.
func closedAddr(t *testing.T) string {
	t.Helper()
	_, addr := bindSocket(t, false)
	return addr
}

// freeAddr is an address for Caddy to listen on. It is held until the test ends: only listeners that share their ports, as
// Caddy's do, can have it, and it is given to nobody else.
func freeAddr(t *testing.T) string {
	t.Helper()
	_, addr := bindSocket(t, true)
	return addr
}

// blackhole is the address of a port that answers nobody: a listener that never accepts, with no more room for those
// who wait. Empty where this host cannot make one.
func blackhole(t *testing.T) string {
	t.Helper()
	fd, addr := bindSocket(t, false)
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	if !fillBacklog(t, addr) {
		t.Log("no port of this host can be made unreachable")
		return ""
	}
	return addr
}

// bindSocket makes a socket that has a port, which it may share, and does not listen on it.
func bindSocket(t *testing.T, shared bool) (fd int, addr string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if shared {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, "127.0.0.1:" + strconv.Itoa(name.(*syscall.SockaddrInet4).Port)
}

// fillBacklog connects until connections are not taken any more, and reports whether that came about.
func fillBacklog(t *testing.T, addr string) bool {
	t.Helper()
	for range 8 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return true
		}
		t.Cleanup(func() { conn.Close() })
	}
	return false
}
