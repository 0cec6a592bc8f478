package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func (p *parser) via(d *caddyfile.Dispenser) error {
	switch {
	case p.short:
		return d.Err("the way already stands behind 'transport tunnel': write it there or with via")
	case p.seen["network_proxy"]:
		return d.Err("network_proxy and via both name the way: keep via")
	case len(p.t.Via) > 0:
		return d.Err("a second via: a way has one; the next hop, reached through the first, is written 'then <url>'")
	}
	hop, err := parseHop(d, "via")
	if err != nil {
		return err
	}
	p.t.Via = []*Hop{hop}
	return nil
}

func (p *parser) then(d *caddyfile.Dispenser) error {
	if len(p.t.Via) == 0 {
		return d.Err("then is the hop behind another: write the nearest hop with via first")
	}
	hop, err := parseHop(d, "then")
	if err != nil {
		return err
	}
	p.t.Via = append(p.t.Via, hop)
	if hop.Direct || p.t.Via[0].Direct {
		return d.WrapErr(errDirectAmongHops)
	}
	return nil
}

func (p *parser) networkProxy(d *caddyfile.Dispenser) error {
	if len(p.t.Via) > 0 {
		return d.Err("network_proxy and via both name the way: keep via")
	}
	args := d.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == "none":
		p.t.Via = []*Hop{{Direct: true}}
		return nil
	case len(args) == 2 && args[0] == "url":
		hop, err := proxyHop(d, args[1])
		p.t.Via = []*Hop{hop}
		return err
	}
	return d.Errf("network_proxy: allowed are 'url <proxy_url>' and 'none'")
}

// parseHop parses what follows via or then: arguments, or a block with one proxy.
func parseHop(d *caddyfile.Dispenser, word string) (*Hop, error) {
	if d.CountRemainingArgs() > 0 {
		hop, err := parseHopArgs(d, word)
		if err != nil {
			return nil, err
		}
		return hop, refuseBlock(d, "a URL behind "+word+" (write "+word+" { proxy <url> { … } } instead)")
	}
	hop := new(Hop)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "proxy" {
			return nil, d.Errf("unrecognized word '%s' in the block of %s: allowed is proxy", displayName(d.Val()), word)
		}
		if len(hop.Proxies) > 0 {
			return nil, d.WrapErr(errAlternatives)
		}
		proxy, err := parseProxy(d)
		if err != nil {
			return nil, err
		}
		hop.Proxies = append(hop.Proxies, proxy)
	}
	if len(hop.Proxies) == 0 {
		return nil, d.Errf("%s names no proxy: write '%s <url>', or a block with 'proxy <url>' ("+
			"a {$NAME} that is not set leaves nothing)", word, word)
	}
	return hop, nil
}

// parseHopArgs parses the one-line forms of a hop.
func parseHopArgs(d *caddyfile.Dispenser, word string) (*Hop, error) {
	args := d.RemainingArgs()
	switch {
	case args[0] == "group":
		return nil, d.Errf("%s group: groups of proxies are not part of this version: write '%s <url>'", word, word)
	case args[0] == "env":
		return nil, d.Errf("%s env: the environment's proxy variables are not read by this version: write '%s <url>', "+
			"or '%s {env.HTTPS_PROXY}' to take the URL from there", word, word, word)
	case len(args) > 1:
		return nil, d.WrapErr(errAlternatives)
	case args[0] == "direct":
		return &Hop{Direct: true}, nil
	}
	return proxyHop(d, args[0])
}

// proxyHop is the hop of one proxy URL.
func proxyHop(d *caddyfile.Dispenser, url string) (*Hop, error) {
	if err := checkProxyURL(url); err != nil {
		return nil, d.WrapErr(err)
	}
	return &Hop{Proxies: []*Proxy{{URL: url}}}, nil
}

// checkProxyURL checks what can be checked before placeholders are expanded.
func checkProxyURL(url string) error {
	if parseTemplate(url).whole() {
		return nil
	}
	_, err := splitProxyURL(url, false)
	return err
}

// parseProxy parses `proxy [<name>] <url> { … }`.
func parseProxy(d *caddyfile.Dispenser) (*Proxy, error) {
	proxy := new(Proxy)
	switch args := d.RemainingArgs(); len(args) {
	case 1:
		proxy.URL = args[0]
	case 2:
		proxy.Name, proxy.URL = args[0], args[1]
	default:
		return nil, d.Err("write proxy [<name>] <url>")
	}
	if err := checkProxyURL(proxy.URL); err != nil {
		return nil, d.WrapErr(err)
	}
	seen := make(map[string]bool)
	leg := &parser{leg: &proxy.TLS, seen: seen}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word := d.Val()
		if seen[word] && word != "header" {
			return nil, d.Errf("%s stands here twice", word)
		}
		seen[word] = true
		var err error
		switch word {
		case "auth":
			err = parseAuth(d, proxy)
		case "header":
			err = parseHeader(d, proxy)
		case "tunnel_timeout":
			if !d.NextArg() {
				return nil, d.ArgErr()
			}
			proxy.TunnelTimeout, err = parseDuration(d)
		case "tls", "tls_except_ports":
			return nil, d.Errf("%s has no meaning for a proxy: its scheme says whether TLS is spoken to it", word)
		default:
			if why, ok := notBuilt[word]; ok {
				return nil, d.Errf("%s is not part of this version: %s", word, why)
			}
			parse, ok := tlsWords[word]
			if !ok {
				return nil, d.Errf("unrecognized word '%s' in the block of a proxy: allowed are auth, header, tunnel_timeout, "+
					"tls_client_auth, tls_curves, tls_insecure_skip_verify, tls_renegotiation, tls_server_name, tls_timeout, "+
					"tls_trust_pool, tls_trusted_ca_certs", displayName(word))
			}
			err = parse(leg, d)
		}
		if err != nil {
			return nil, err
		}
		if d.NextArg() {
			return nil, d.Errf("unexpected argument '%s' behind %s", displayName(d.Val()), word)
		}
		if word != "tls_trust_pool" {
			if err := refuseBlock(d, word); err != nil {
				return nil, err
			}
		}
	}
	return proxy, nil
}

func parseAuth(d *caddyfile.Dispenser, proxy *Proxy) error {
	args := d.RemainingArgs()
	if len(args) < 2 || len(args) > 3 || args[0] != "basic" {
		return d.Err("write auth basic <user> [<password>]: other schemes are not supported")
	}
	proxy.Auth = &ProxyAuth{Scheme: "basic", Username: args[1]}
	if len(args) == 3 {
		proxy.Auth.Password = args[2]
	}
	if u, err := splitProxyURL(proxy.URL, false); err == nil && u.hasAuth {
		return d.Err("credentials stand both in the proxy's URL and in auth: keep one")
	}
	return nil
}

func parseHeader(d *caddyfile.Dispenser, proxy *Proxy) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.Err("write header <field> <value>")
	}
	if proxy.Headers == nil {
		proxy.Headers = make(http.Header)
	}
	proxy.Headers.Add(args[0], args[1])
	if _, err := headerTemplates(proxy.Headers); err != nil {
		return d.WrapErr(err)
	}
	return nil
}
