package caddymodule

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddytunnel/caddytunnel/tunnel"
)

// A proxyURL is a proxy's URL split into the parts that are expanded apart from each other.
type proxyURL struct {
	dialect  tunnel.Dialect
	scheme   string
	user     template
	password template
	hasAuth  bool
	network  string   // "tcp" or "unix"
	host     template // the socket's path for "unix"
	port     template
}

// proxyURLForm ends the errors below. None of them quotes what stands before the @.
const proxyURLForm = "write scheme://[user[:password]@]host[:port] or scheme://[user[:password]@]unix//path, " +
	"scheme one of http, https, h2, socks5, socks5h"

// splitProxyURL splits a proxy's URL with placeholders in it. url.Parse cannot: it refuses braces in userinfo, host
// and port, and it prints passwords in its errors. Literal userinfo is percent-decoded once; what a placeholder
// expands to never is. With expanded set, s is what a placeholder expanded to, and braces in it stand for themselves.
func splitProxyURL(s string, expanded bool) (*proxyURL, error) {
	schemeEnd := strings.Index(s, "://")
	if schemeEnd <= 0 || strings.ContainsRune(s[:schemeEnd], '{') {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && strings.Count(s, "{") == 1 {
			return nil, errors.New("the value of the placeholder is not a proxy's URL: " + proxyURLForm)
		}
		return nil, errors.New("proxy URL has no scheme: put http:// in front of it for an HTTP proxy, https:// or h2:// if TLS is " +
			"spoken to it, socks5:// for a SOCKS server, or write 'via direct' to go without a proxy")
	}
	u := &proxyURL{scheme: strings.ToLower(s[:schemeEnd]), network: "tcp"}
	var err error
	if u.dialect, err = dialectOf(u.scheme); err != nil {
		return nil, err
	}
	rest := s[schemeEnd+3:]
	tmpl := parseTemplate
	if expanded {
		tmpl = literal
	}
	var userinfo string
	if userinfo, rest, u.hasAuth = cutUserinfo(rest, expanded); u.hasAuth {
		if err := u.splitUserinfo(userinfo, tmpl, expanded); err != nil {
			return nil, err
		}
	}
	if path, ok := strings.CutPrefix(rest, "unix/"); ok {
		if !strings.HasPrefix(path, "/") {
			return nil, errors.New("a proxy on a Unix socket needs an absolute path: " + u.scheme + "://unix//run/proxy.sock")
		}
		u.network, u.host = "unix", tmpl(path)
		return u, u.checkPlaceholders()
	}
	rest = strings.TrimSuffix(rest, "/")
	if firstOutsideBraces(rest, "/?#", expanded) >= 0 {
		return nil, errors.New("a proxy's URL has no path, query or fragment: " + proxyURLForm)
	}
	host, port, err := splitHostPort(rest, expanded)
	if err != nil {
		return nil, err
	}
	if port == "" {
		port = defaultProxyPort(u.dialect)
	}
	u.host, u.port = tmpl(host), tmpl(port)
	if !u.host.dynamic() {
		if err := checkHost(host); err != nil {
			return nil, err
		}
	}
	if !u.port.dynamic() {
		if err := checkPort(port); err != nil {
			return nil, err
		}
	}
	return u, u.checkPlaceholders()
}

func dialectOf(scheme string) (tunnel.Dialect, error) {
	switch scheme {
	case "http", "https", "h2", "socks5":
		return tunnel.Dialect(scheme), nil
	case "socks5h":
		return tunnel.SOCKS5, nil
	case "socks4", "socks4a":
		return "", fmt.Errorf("proxy scheme %s is refused: it has no authentication and no IPv6; %s", scheme, proxyURLForm)
	case "h3", "masque", "quic":
		return "", fmt.Errorf("proxy scheme %s is refused: tunnels run over TCP; %s", scheme, proxyURLForm)
	case "pac", "pac+http", "pac+https", "pac+file":
		return "", fmt.Errorf("proxy scheme %s is refused: a PAC file is a program that picks the way; name the proxy itself: %s", scheme, proxyURLForm)
	}
	if strings.ContainsAny(scheme, ":@/") { // a login in front of the scheme, not to be quoted
		return "", errors.New("what stands before :// in the proxy URL is not a scheme: " + proxyURLForm)
	}
	return "", fmt.Errorf("proxy scheme %q is not known: %s", scheme, proxyURLForm)
}

func defaultProxyPort(d tunnel.Dialect) string {
	switch d {
	case tunnel.HTTP:
		return "80"
	case tunnel.SOCKS5:
		return "1080"
	default:
		return "443"
	}
}

func (u *proxyURL) splitUserinfo(userinfo string, tmpl func(string) template, expanded bool) error {
	user, password := userinfo, ""
	if i := firstOutsideBraces(userinfo, ":", expanded); i >= 0 {
		user, password = userinfo[:i], userinfo[i+1:]
	}
	decode := func(s string) (string, error) {
		d, err := url.PathUnescape(s)
		if err != nil {
			return "", errors.New("user or password of the proxy URL has a bad percent escape (write a % as %25)")
		}
		return d, nil
	}
	var err error
	if u.user, err = tmpl(user).mapLiterals(decode); err != nil {
		return err
	}
	if u.user.empty() {
		return errors.New("the proxy URL has an empty user before the @")
	}
	u.password, err = tmpl(password).mapLiterals(decode)
	return err
}

// checkPlaceholders allows in host and port only what is the same for every request: were the client to choose the
// proxy's address, it would choose where the credentials go.
func (u *proxyURL) checkPlaceholders() error {
	for _, t := range []template{u.host, u.port} {
		if key, ok := t.perRequest(); ok {
			return fmt.Errorf("a proxy's address must not depend on the request, but {%s} does: name the proxy, and "+
				"where there are several, write a route for each", key)
		}
	}
	for _, t := range []template{u.user, u.password} {
		if err := t.checkSecretPlaceholders(); err != nil {
			return err
		}
	}
	return nil
}

func splitHostPort(s string, expanded bool) (host, port string, err error) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", errors.New("the proxy's IPv6 address lacks its closing bracket")
		}
		host, s = s[1:end], s[end+1:]
		if addr, err := netip.ParseAddr(host); err != nil || !addr.Is6() {
			return "", "", errors.New("what stands in brackets is not an IPv6 address")
		}
		if s == "" {
			return host, "", nil
		}
		if s[0] != ':' {
			return "", "", errors.New("behind the proxy's IPv6 address only :port may follow")
		}
		return host, s[1:], portGiven(s[1:])
	}
	i := firstOutsideBraces(s, ":", expanded)
	if i < 0 {
		return s, "", nil
	}
	if firstOutsideBraces(s[i+1:], ":", expanded) >= 0 {
		return "", "", errors.New("the proxy's address has more than one colon: an IPv6 address stands in brackets")
	}
	return s[:i], s[i+1:], portGiven(s[i+1:])
}

func portGiven(port string) error {
	if port == "" {
		return errors.New("the proxy's address ends in a colon without a port")
	}
	return nil
}

func checkHost(host string) error {
	if host == "" {
		return errors.New("the proxy URL has no host: " + proxyURLForm)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if strings.ContainsAny(host, " \t\r\n\x00/\\@?#%<>\"`:[]") {
		return errors.New("the proxy's host is not a name or an IP address")
	}
	return nil
}

func checkPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '+' {
		return errors.New("the proxy's port is not a number from 1 to 65535")
	}
	return nil
}

// address returns the network and address to dial. Only placeholders that mean the same for every request are left.
func (u *proxyURL) address(expand func(template) (string, error)) (network, addr string, err error) {
	host, err := expand(u.host)
	if err != nil {
		return "", "", err
	}
	if u.network == "unix" {
		return u.network, host, nil
	}
	port, err := expand(u.port)
	if err != nil {
		return "", "", err
	}
	if err := checkHost(host); err != nil {
		return "", "", err
	}
	if err := checkPort(port); err != nil {
		return "", "", err
	}
	return u.network, net.JoinHostPort(host, port), nil
}

// cutUserinfo cuts what stands before the host. The path of a socket may hold an @.
func cutUserinfo(s string, expanded bool) (userinfo, rest string, ok bool) {
	const socket = "unix//"
	if strings.HasPrefix(s, socket) {
		return "", s, false
	}
	at := strings.Index(s, "@"+socket)
	if at < 0 {
		at = lastOutsideBraces(s, '@', expanded)
	}
	if at < 0 {
		return "", s, false
	}
	return s[:at], s[at+1:], true
}

// firstOutsideBraces returns the index of the first of chars in s that is not part of a placeholder, or -1.
func firstOutsideBraces(s, chars string, expanded bool) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '{' && !expanded {
			if end := strings.IndexByte(s[i:], '}'); end > 0 {
				i += end
				continue
			}
		}
		if strings.IndexByte(chars, s[i]) >= 0 {
			return i
		}
	}
	return -1
}

// lastOutsideBraces is firstOutsideBraces from the other end: an @ in a password does not end the userinfo.
func lastOutsideBraces(s string, char byte, expanded bool) int {
	last := -1
	for from := 0; ; {
		i := firstOutsideBraces(s[from:], string(char), expanded)
		if i < 0 {
			return last
		}
		last = from + i
		from = last + 1
	}
}

// displayName is what a proxy without a name is called: scheme and host:port as written, userinfo removed.
func displayName(rawURL string) string {
	i := strings.Index(rawURL, "://")
	if i < 0 {
		return rawURL
	}
	_, rest, _ := cutUserinfo(rawURL[i+3:], false)
	return rawURL[:i+3] + strings.TrimSuffix(rest, "/")
}
