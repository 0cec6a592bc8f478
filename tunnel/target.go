package tunnel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// longestName is what SOCKS5 can carry, and two more than DNS can.
const longestName = 255

var (
	errZone    = errors.New("the zone of an IPv6 address means nothing to a proxy")
	errTooLong = fmt.Errorf("the name is longer than %d bytes", longestName)
)

// target is where a proxy is asked to connect to: an address or a name.
type target struct {
	ip    netip.Addr // valid for an IP literal
	name  string     // for anything else; in ASCII
	port  uint16
	zoned bool
}

// parseTarget takes "host:port" apart. Nothing is looked up.
func parseTarget(addr string) (target, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return target{}, errors.New("not host:port")
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return target{}, fmt.Errorf("%q is not a port", portText)
	}
	t := target{port: uint16(port)}
	if ip, err := netip.ParseAddr(host); err == nil {
		t.ip, t.zoned = ip, ip.Zone() != ""
		return t, nil
	}
	if t.name, err = asciiName(host); err != nil {
		return target{}, err
	}
	return t, nil
}

// asciiName checks a host name and makes it ASCII, so that it means the same to every proxy and cannot be taken for
// anything but a name.
func asciiName(host string) (string, error) {
	if len(host) > longestName {
		return "", errTooLong
	}
	ascii, err := httpguts.PunycodeHostPort(host)
	if err != nil {
		return "", errors.New("not a host name")
	}
	if len(ascii) > longestName {
		return "", errTooLong
	}
	if ascii == "" || strings.Trim(ascii, ".") == "" {
		return "", errors.New("the host is empty")
	}
	for i := range len(ascii) {
		if c := ascii[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"#%/:<>?@[\]^{|}`+"`", c) >= 0 {
			return "", fmt.Errorf("a host name cannot hold %q", c)
		}
	}
	return ascii, nil
}

// String is "host:port" with the brackets an IPv6 address needs.
func (t target) String() string {
	host := t.name
	if t.ip.IsValid() {
		host = t.ip.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(t.port)))
}
