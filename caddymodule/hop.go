package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddytunnel/caddytunnel/tunnel"
)

// Hop is one station of the way: a proxy, or the statement that there is none.
type Hop struct {
	// The proxy of this hop. Exactly one.
	Proxies []*Proxy `json:"proxies,omitempty"`

	// The origin is reached without a proxy. Only as the one hop of the way.
	Direct bool `json:"direct,omitempty"`
}

// Proxy is a proxy and everything that belongs to the leg to it.
type Proxy struct {
	// What the proxy is called in logs and errors. Default: scheme and host:port of its URL
	Name string `json:"name,omitempty"`

	// The proxy's URL: `scheme://[user[:password]@]host[:port]`, or `scheme://unix//path` for a Unix socket. Schemes:
	// `http` (CONNECT), `https` (CONNECT over TLS), `h2` (CONNECT over HTTP/2 over TLS), `socks5` and `socks5h` (both send
	// names unresolved). Ports default to 80, 443, 443 and 1080. User and password are percent-decoded once, and may hold
	// placeholders; host and port may hold `{env.*}` and `{file.*}`; a whole URL may be one `{env.*}` or `{file.*}`.
	URL string `json:"url"`

	// Credentials, as an alternative to those in the URL. Values are taken as they are, after placeholders.
	Auth *ProxyAuth `json:"auth,omitempty"`

	// TLS to the proxy, for `https` and `h2`. The origin's TLS settings have no effect here.
	TLS *TLS `json:"tls,omitempty"`

	// Header fields on the CONNECT request, and nowhere else. Values may hold placeholders.
	Headers http.Header `json:"headers,omitempty"`

	// The time for the whole handshake with this proxy, TLS to it included. Default: the transport's `tunnel_timeout`
	TunnelTimeout caddy.Duration `json:"tunnel_timeout,omitempty"`
}

// ProxyAuth is a proxy's credentials.
type ProxyAuth struct {
	// The scheme: `basic`, which is also what SOCKS5 user and password are called here. Default: `basic`
	Scheme string `json:"scheme,omitempty"`

	// The user. Placeholders are expanded per connection.
	Username string `json:"username"`

	// The password. Placeholders are expanded per connection; prefer `{env.NAME}` and `{file./path}` to a
	// password in the config.
	Password string `json:"password,omitempty"`
}

// hops returns the configured way in its one form, whichever of the accepted forms it was written in.
func (t *Transport) hops() ([]*Hop, error) {
	if t.ForwardProxyURL != "" {
		return nil, errors.New("forward_proxy_url is not an option of this transport: write 'via <url>'")
	}
	via := t.Via
	if np := t.NetworkProxy; np != nil {
		if len(via) > 0 {
			return nil, errors.New("network_proxy and via both name the way: keep one")
		}
		switch {
		case np.From == "none" && np.URL == "":
			via = []*Hop{{Direct: true}}
		case np.From == "url" && np.URL != "":
			via = []*Hop{{Proxies: []*Proxy{{URL: np.URL}}}}
		default:
			return nil, fmt.Errorf("network_proxy from %q is not supported: allowed are url (with a url) and none", np.From)
		}
	}
	if len(via) == 0 {
		return nil, errNoWay
	}
	for i, h := range via {
		switch {
		case h == nil || !h.Direct && len(h.Proxies) == 0:
			return nil, fmt.Errorf("hop %d of the way names no proxy", i+1)
		case h.Direct && (len(via) > 1 || len(h.Proxies) > 0):
			return nil, errDirectAmongHops
		case len(h.Proxies) > 1:
			return nil, errAlternatives
		case !h.Direct && h.Proxies[0] == nil:
			return nil, fmt.Errorf("hop %d of the way names no proxy", i+1)
		}
	}
	if via[0].Direct && len(t.Bypass) > 0 {
		return nil, errBypassDirect
	}
	return via, nil
}

var (
	errNoWay = errors.New("no way to the origin is given: write 'via <url>' with the proxy's URL, or 'via direct' to go without one " +
		"(the environment's proxy variables are not read)")
	errDirectAmongHops = errors.New("'direct' is the whole way and cannot stand among other hops")
	errBypassDirect    = errors.New("bypass has no meaning with 'via direct': every origin is reached directly")
	errBasicColon      = errors.New("user: a colon cannot be part of a Basic user (RFC 7617)")
	errAlternatives    = errors.New("more than one proxy for one hop is not supported by this version: give one, " +
		"and 'then <url>' if the second is to be reached through the first")
)

// A login is a proxy's credentials, still to be expanded.
type login struct {
	user, password template
	given          bool
	plain          bool // the password stands in the config as it is
}

// login returns the proxy's credentials, from its URL or from auth.
func (p *Proxy) login(u *proxyURL) (login, error) {
	l := login{user: u.user, password: u.password, given: u.hasAuth}
	if p.Auth != nil {
		if l.given {
			return l, errors.New("credentials stand both in the proxy's URL and in auth: keep one")
		}
		if s := p.Auth.Scheme; s != "" && s != "basic" {
			return l, fmt.Errorf("proxy authentication %q is not supported: allowed is basic", s)
		}
		l = login{user: parseTemplate(p.Auth.Username), password: parseTemplate(p.Auth.Password), given: true}
		if l.user.empty() {
			return l, errors.New("the proxy's auth has an empty user")
		}
		for _, t := range []template{l.user, l.password} {
			if err := t.checkSecretPlaceholders(); err != nil {
				return l, err
			}
		}
	}
	l.plain = !l.password.empty() && !l.password.dynamic() && !parseTemplate(strings.TrimSpace(p.URL)).whole()
	return l, checkLogin(u.dialect, l.user, l.password)
}

// checkLogin refuses what no placeholder can mend, when the config loads.
func checkLogin(d tunnel.Dialect, user, password template) error {
	if d == tunnel.SOCKS5 {
		for _, t := range []template{user, password} {
			if len(t.segments) == 1 && !t.dynamic() && len(t.segments[0].text) > 255 {
				return errors.New("user and password are at most 255 bytes long in SOCKS5 (RFC 1929)")
			}
		}
		return nil
	}
	if user.literalsHave(":") {
		return errBasicColon
	}
	if user.literalsHave("\r\n\x00") || password.literalsHave("\r\n\x00") {
		return errors.New("user or password has CR, LF or NUL in it")
	}
	return nil
}

// name returns what the proxy is called.
func (p *Proxy) name() string {
	if p.Name != "" {
		return p.Name
	}
	return displayName(strings.TrimSpace(p.URL))
}
