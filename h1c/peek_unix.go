//go:build unix

package h1c

import "syscall"

// peek looks at a socket: whether it has bytes to read, and whether it may have any.
func peek(socket syscall.RawConn) (readable, alive bool) {
	var b [1]byte
	var n int
	var err error
	if socket.Read(func(fd uintptr) bool {
		n, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return true
	}) != nil {
		return false, false
	}
	return n > 0, n > 0 || err == syscall.EAGAIN || err == syscall.EINTR
}
