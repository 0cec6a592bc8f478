package caddymodule

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// errNoClientAddress is for what no header can tell. An origin takes a connection without an address for one of the proxy it
// came from.
var errNoClientAddress = errors.New("the client has no IP address that a PROXY header could tell, as on a Unix socket")

// proxyHeader returns the PROXY protocol header that tells the origin about the client of a relayed request. Of another, as a
// health check, it says that the connection is this host's own (LOCAL, and UNKNOWN in version 1).
func proxyHeader(version string, client netip.AddrPort, relayed bool) ([]byte, error) {
	v := byte(2)
	if version == "v1" {
		v = 1
	}
	h := &proxyproto.Header{Version: v, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	if relayed {
		if !client.IsValid() {
			return nil, errNoClientAddress
		}
		ip := client.Addr().Unmap()
		source := &net.TCPAddr{IP: ip.AsSlice(), Port: int(client.Port()), Zone: ip.Zone()}
		// The address the client connected to is not known here; as elsewhere in Caddy it is left zero.
		dest := &net.TCPAddr{IP: net.IPv4zero}
		if ip.Is6() {
			dest.IP = net.IPv6zero
		}
		h = proxyproto.HeaderProxyFromAddrs(v, source, dest)
	}
	var b bytes.Buffer
	if _, err := h.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("PROXY protocol header: %w", err)
	}
	return b.Bytes(), nil
}
