package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/caddytunnel/caddytunnel/tunnel"
)

// A way is the configured way to the origin, checked, with the templates of what is expanded per request.
type way struct {
	hops   []hopTemplate // empty: direct
	bypass []bypassRule
}

// A hopTemplate is a hop whose address is known and whose credentials, names and headers may depend on the request.
type hopTemplate struct {
	name          string
	dialect       tunnel.Dialect
	network, addr string
	login         login
	headers       []headerTemplate
	tls           *tlsTemplate // https and h2 only
	tlsHost       string       // the name verified where none is configured
	timeout       time.Duration
}

type headerTemplate struct {
	name  string
	value template
}

// provisionWay checks the way and loads what its hops need. It looks no name up and connects to nothing.
func (t *Transport) provisionWay(ctx caddy.Context) (*way, error) {
	hops, err := t.hops()
	if err != nil {
		return nil, err
	}
	w := new(way)
	if w.bypass, err = parseBypass(t.Bypass); err != nil {
		return nil, err
	}
	if hops[0].Direct {
		return w, nil
	}
	repl := caddy.NewReplacer()
	for i, h := range hops {
		ht, err := h.Proxies[0].provision(ctx, repl)
		if err != nil {
			return nil, fmt.Errorf("hop %d: %w", i+1, err)
		}
		if ht.network == "unix" && i > 0 {
			return nil, fmt.Errorf("hop %d: a Unix socket is of this host, so only the first hop can be on one", i+1)
		}
		ht.timeout = orDefault(ht.timeout, time.Duration(t.TunnelTimeout))
		w.hops = append(w.hops, *ht)
	}
	return w, nil
}

func (p *Proxy) provision(ctx caddy.Context, repl *caddy.Replacer) (*hopTemplate, error) {
	u, err := p.split(repl)
	if err != nil {
		return nil, err
	}
	ht := &hopTemplate{name: p.name(), dialect: u.dialect, timeout: time.Duration(p.TunnelTimeout)}
	ht.network, ht.addr, err = u.address(func(t template) (string, error) { return t.expand(repl) })
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", ht.name, err)
	}
	if ht.login, err = p.login(u); err != nil {
		return nil, fmt.Errorf("proxy %s: %w", ht.name, err)
	}
	if ht.timeout < 0 {
		return nil, fmt.Errorf("proxy %s: tunnel_timeout must not be negative", ht.name)
	}
	if ht.dialect == tunnel.SOCKS5 && len(p.Headers) > 0 {
		return nil, fmt.Errorf("proxy %s: SOCKS5 has no header fields", ht.name)
	}
	if ht.headers, err = headerTemplates(p.Headers); err != nil {
		return nil, fmt.Errorf("proxy %s: %w", ht.name, err)
	}
	switch {
	case ht.dialect == tunnel.HTTPS || ht.dialect == tunnel.H2:
		if ht.tls, err = p.TLS.provision(ctx); err != nil {
			return nil, fmt.Errorf("proxy %s: TLS: %w", ht.name, err)
		}
		if p.TLS != nil && len(p.TLS.ExceptPorts) > 0 {
			return nil, fmt.Errorf("proxy %s: except_ports has no meaning for a proxy", ht.name)
		}
		if ht.network == "tcp" {
			ht.tlsHost = hostOf(ht.addr)
		} else if ht.tls.serverName.empty() && !ht.tls.config.InsecureSkipVerify {
			return nil, fmt.Errorf("proxy %s: TLS over a Unix socket needs a name to verify: give tls_server_name", ht.name)
		}
	case p.TLS != nil:
		return nil, fmt.Errorf("proxy %s: its scheme %s does not speak TLS: write https or h2", ht.name, ht.dialect)
	}
	return ht, nil
}

// split splits the proxy's URL. A URL that is one placeholder is expanded before, and what it expands to is not
// expanded again.
func (p *Proxy) split(repl *caddy.Replacer) (*proxyURL, error) {
	raw := strings.TrimSpace(p.URL)
	if raw == "" {
		return nil, errors.New("a proxy has an empty URL: " + proxyURLForm)
	}
	t := parseTemplate(raw)
	if !t.whole() {
		return splitProxyURL(raw, false)
	}
	if key, ok := t.perRequest(); ok {
		return nil, fmt.Errorf("a proxy's URL must not depend on the request, but {%s} does: name the proxy, and "+
			"where there are several, write a route for each", key)
	}
	v, err := t.expand(repl)
	if err != nil {
		return nil, fmt.Errorf("proxy URL: %w", err)
	}
	return splitProxyURL(v, true)
}

func headerTemplates(h http.Header) ([]headerTemplate, error) {
	var out []headerTemplate
	for name, values := range h {
		canonical := http.CanonicalHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("header %q is not a field name", name)
		}
		switch canonical {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer":
			return nil, fmt.Errorf("header %s cannot be set on CONNECT", canonical)
		case "Proxy-Authorization":
			return nil, errors.New("header Proxy-Authorization: give the credentials with auth, which keeps them out of logs")
		}
		for _, v := range values {
			t := parseTemplate(v)
			if _, err := t.mapLiterals(headerText); err != nil {
				return nil, fmt.Errorf("header %s: %w", canonical, err)
			}
			out = append(out, headerTemplate{canonical, t})
		}
	}
	slices.SortStableFunc(out, func(a, b headerTemplate) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// headerText checks a part of a field's value.
func headerText(s string) (string, error) {
	if !httpguts.ValidHeaderFieldValue(s) {
		return "", errors.New("the value has characters that a header cannot hold")
	}
	return s, nil
}

// perRequest returns the first placeholder of the way that only a request can answer.
func (w *way) perRequest() (key string, ok bool) {
	for _, h := range w.hops {
		ts := []template{h.login.user, h.login.password}
		for _, hd := range h.headers {
			ts = append(ts, hd.value)
		}
		if h.tls != nil {
			ts = append(ts, h.tls.serverName)
		}
		for _, t := range ts {
			if key, ok := t.perRequest(); ok {
				return key, true
			}
		}
	}
	return "", false
}

// expand returns the hops for one request to the origin host:port.
func (w *way) expand(repl *caddy.Replacer, host, port string) ([]tunnel.Hop, error) {
	if len(w.hops) == 0 || bypassed(w.bypass, host, port) {
		return []tunnel.Hop{{Dialect: tunnel.Direct}}, nil
	}
	hops := make([]tunnel.Hop, len(w.hops))
	for i := range w.hops {
		if err := w.hops[i].expand(repl, &hops[i]); err != nil {
			return nil, &hopError{w.hops[i].name, err}
		}
	}
	return hops, nil
}

func (ht *hopTemplate) expand(repl *caddy.Replacer, hop *tunnel.Hop) error {
	*hop = tunnel.Hop{Name: ht.name, Dialect: ht.dialect, Network: ht.network, Addr: ht.addr, Timeout: ht.timeout}
	if ht.login.given {
		user, err := ht.login.user.expand(repl)
		if err != nil {
			return fmt.Errorf("user: %w", err)
		}
		password, err := ht.login.password.expand(repl)
		if err != nil {
			return fmt.Errorf("password: %w", err)
		}
		if ht.dialect != tunnel.SOCKS5 && strings.Contains(user, ":") {
			return errBasicColon
		}
		hop.Auth = &tunnel.Auth{Username: user, Password: password}
	}
	for _, h := range ht.headers {
		v, err := h.value.expand(repl)
		if err != nil {
			return fmt.Errorf("header %s: %w", h.name, err)
		}
		if v, err = headerText(v); err != nil {
			return fmt.Errorf("header %s: %w", h.name, err)
		}
		if hop.Header == nil {
			hop.Header = make(http.Header, len(ht.headers))
		}
		hop.Header[h.name] = append(hop.Header[h.name], v)
	}
	if ht.tls != nil {
		cfg, err := ht.tls.expand(repl, ht.tlsHost)
		if err != nil {
			return err
		}
		if cfg.Timeout == 0 {
			cfg.Timeout = -1 // the hop's own time covers it
		}
		hop.TLS = cfg
	}
	return nil
}
