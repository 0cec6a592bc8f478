//go:build !unix

package h1c

import "syscall"

// peek knows nothing: sockets block here.
func peek(syscall.RawConn) (readable bool, err error) { return false, nil }
