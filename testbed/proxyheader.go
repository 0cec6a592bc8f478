package testbed

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
)

var errProxyHeader = errors.New("testbed: malformed PROXY header")

const (
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"

	maxProxyV1 = 107 // bytes, its end of line included
)

// readProxyHeader reads a PROXY header of version 1 or 2 from r, if r begins with one, and not a byte behind it.
// source is the address the header names, "LOCAL" or "UNKNOWN" where it names none, and empty without a header; rest
// is what was read and belongs to no header.
func readProxyHeader(r io.Reader) (source string, rest []byte, err error) {
	var head []byte
	for {
		head, err = readMore(r, head, 1)
		if err != nil {
			return "", head, err
		}
		text := string(head)
		switch {
		case text == proxyV1:
			source, err = readProxyV1(r, head)
			return source, nil, err
		case text == proxyV2:
			source, err = readProxyV2(r)
			return source, nil, err
		case !strings.HasPrefix(proxyV1, text) && !strings.HasPrefix(proxyV2, text):
			return "", head, nil
		}
	}
}

// readMore appends n bytes from r to b.
func readMore(r io.Reader, b []byte, n int) ([]byte, error) {
	more := make([]byte, n)
	got, err := io.ReadFull(r, more)
	return append(b, more[:got]...), err
}

func readProxyV1(r io.Reader, line []byte) (string, error) {
	for !strings.HasSuffix(string(line), "\r\n") {
		if len(line) == maxProxyV1 {
			return "", errProxyHeader
		}
		var err error
		if line, err = readMore(r, line, 1); err != nil {
			return "", err
		}
	}
	fields := strings.Split(strings.TrimSuffix(string(line), "\r\n"), " ")
	if fields[1] == "UNKNOWN" {
		return "UNKNOWN", nil
	}
	if len(fields) != 6 || fields[1] != "TCP4" && fields[1] != "TCP6" {
		return "", errProxyHeader
	}
	source := net.JoinHostPort(fields[2], fields[4])
	if _, err := netip.ParseAddrPort(source); err != nil {
		return "", errProxyHeader
	}
	return source, nil
}

func readProxyV2(r io.Reader) (string, error) {
	var fixed [4]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return "", err
	}
	addresses := make([]byte, binary.BigEndian.Uint16(fixed[2:]))
	if _, err := io.ReadFull(r, addresses); err != nil {
		return "", err
	}
	switch {
	case fixed[0] == 0x20:
		return "LOCAL", nil
	case fixed[0] != 0x21:
		return "", errProxyHeader
	case fixed[1]>>4 == 1 && len(addresses) >= 12:
		ip, _ := netip.AddrFromSlice(addresses[:4])
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(addresses[8:])).String(), nil
	case fixed[1]>>4 == 2 && len(addresses) >= 36:
		ip, _ := netip.AddrFromSlice(addresses[:16])
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(addresses[32:])).String(), nil
	}
	return "UNKNOWN", nil
}
