package caddymodule

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// privateRanges stands for the same networks as everywhere in Caddy: RFC 1918, RFC 4193 and loopback.
const privateRanges = "private_ranges"

// A bypassRule names origins that are reached directly. Exactly one of name, suffix and prefix is set.
type bypassRule struct {
	name   string
	suffix string
	prefix netip.Prefix
	port   string // empty: any
}

// parseBypass parses the rules of a way.
func parseBypass(words []string) ([]bypassRule, error) {
	var rules []bypassRule
	for _, w := range words {
		if w == privateRanges {
			for _, cidr := range caddyhttp.PrivateRangesCIDR() {
				r, err := parseBypassRule(cidr)
				if err != nil {
					return nil, err
				}
				rules = append(rules, r)
			}
			continue
		}
		r, err := parseBypassRule(w)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseBypassRule(w string) (bypassRule, error) {
	bad := func(why string) (bypassRule, error) {
		return bypassRule{}, fmt.Errorf("bypass %q: %s; allowed are a name, .suffix, *.suffix, an IP address, a CIDR range "+
			"and %s, a name or address with :port if wanted", w, why, privateRanges)
	}
	if strings.Contains(w, "/") {
		prefix, err := netip.ParsePrefix(w)
		if err != nil {
			return bad("not a CIDR range")
		}
		return bypassRule{prefix: prefix.Masked()}, nil
	}
	host, port := w, ""
	if h, p, err := net.SplitHostPort(w); err == nil {
		host, port = h, p
		if checkPort(port) != nil {
			return bad("the port is not a number from 1 to 65535")
		}
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		addr = addr.Unmap().WithZone("")
		return bypassRule{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, nil
	}
	suffix, isSuffix := strings.CutPrefix(strings.TrimPrefix(host, "*"), ".")
	switch {
	case strings.ContainsAny(suffix, "*:{}[] \t") || strings.HasPrefix(host, "*") && !isSuffix:
		return bad("not a host name")
	case suffix == "":
		return bad("it names no host")
	case isSuffix:
		return bypassRule{suffix: "." + canonicalName(suffix), port: port}, nil
	}
	return bypassRule{name: canonicalName(host), port: port}, nil
}

// bypassed reports whether one of the rules names the origin host:port, as it is configured.
func bypassed(rules []bypassRule, host, port string) bool {
	if len(rules) == 0 {
		return false
	}
	name := canonicalName(host)
	addr, err := netip.ParseAddr(host)
	isIP := err == nil
	addr = addr.Unmap().WithZone("")
	for _, r := range rules {
		if r.port != "" && r.port != port {
			continue
		}
		switch {
		case r.prefix.IsValid():
			if isIP && r.prefix.Contains(addr) {
				return true
			}
		case isIP:
		case r.suffix != "" && strings.HasSuffix(name, r.suffix) && len(name) > len(r.suffix):
			return true
		case r.name != "" && name == r.name:
			return true
		}
	}
	return false
}

func canonicalName(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
