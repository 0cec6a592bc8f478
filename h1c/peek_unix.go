//go:build unix

package h1c

import (
	"io"
	"syscall"
)

// peek looks whether a socket has bytes to read. The error is that of a read, io.EOF included.
func peek(socket syscall.RawConn) (readable bool, err error) {
	var b [1]byte
	var n int
	var recvErr error
	if err := socket.Read(func(fd uintptr) bool {
		n, _, recvErr = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return true
	}); err != nil {
		return false, err
	}
	switch {
	case recvErr == syscall.EAGAIN || recvErr == syscall.EINTR:
		return false, nil
	case recvErr != nil:
		return false, recvErr
	case n <= 0:
		return false, io.EOF
	}
	return true, nil
}
