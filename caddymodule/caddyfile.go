package caddymodule

import (
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// UnmarshalCaddyfile sets up the transport from Caddyfile tokens. Syntax:
//
//	transport tunnel [<proxy_url>] {
//	    via  <proxy_url> | direct | {
//	        proxy [<name>] <proxy_url> {
//	            auth basic <user> [<password>]
//	            header <field> <value>
//	            tunnel_timeout <duration>
//	            tls_trust_pool <module> { ... }
//	            tls_trusted_ca_certs <cert_files...>
//	            tls_server_name <name>
//	            tls_client_auth <automate_name> | <cert_file> <key_file>
//	            tls_insecure_skip_verify
//	            tls_curves <curves...>
//	            tls_renegotiation <level>
//	            tls_timeout <duration>
//	        }
//	    }
//	    then <proxy_url> | { proxy ... }
//	    network_proxy url <proxy_url> | none
//	    bypass <name|.suffix|*.suffix|ip|cidr|private_ranges>...
//
//	    decode [gzip] [deflate] [br] [zstd]
//	    max_body_bytes <size> | unlimited
//	    pull_bytes     <size>
//	    replay_bytes   <size> | off
//	    max_identities <count>
//
//	    read_buffer | write_buffer | max_response_header <size>
//	    dial_timeout | tunnel_timeout | response_header_timeout | expect_continue_timeout <duration>
//	    read_timeout | write_timeout | dial_fallback_delay <duration>
//	    resolvers <addresses...>
//	    local_address <address>
//	    proxy_protocol v1|v2
//	    tls
//	    tls_trust_pool ... and the other tls_* words above, for the leg to the origin
//	    tls_except_ports <ports...>
//	    keepalive [off|<duration>]
//	    keepalive_interval <interval>
//	    keepalive_idle_conns <max_count>
//	    keepalive_idle_conns_per_host <count>
//	    ping off | <idle> [<timeout>]
//	    versions 1.1 2 | h2c
//	    compression off
//	    max_conns_per_host <count>
//	}
//
// Sizes are written 64KiB, 10MiB. Each word stands once. A hop is one proxy; `then` is the next hop, farther, and may be
// repeated.
func (t *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := t.unmarshal(d); err != nil {
		return redact(err, wordsOf(d))
	}
	return nil
}

func (t *Transport) unmarshal(d *caddyfile.Dispenser) error {
	d.Next() // transport name
	p := &parser{t: t, seen: make(map[string]bool)}
	if d.CountRemainingArgs() > 0 {
		p.short = true
		hop, err := parseHopArgs(d, "transport tunnel")
		if err != nil {
			return err
		}
		t.Via = []*Hop{hop}
	}
	for d.NextBlock(0) {
		word := d.Val()
		if why, ok := notBuilt[word]; ok {
			return d.Errf("%s is not part of this version: %s", word, why)
		}
		parse, ok := words[word]
		if !ok {
			parse, ok = tlsWords[word], tlsWords[word] != nil
		}
		if !ok && slices.Contains([]string{"proxy", "auth", "header"}, word) {
			return d.Errf("%s is about one proxy: write via { proxy <url> { … } }, with what belongs to that proxy inside", word)
		}
		if !ok {
			return d.Errf("unrecognized word '%s': allowed are %s", displayName(word), allowedWords())
		}
		if p.seen[word] && word != "then" && word != "via" {
			return d.Errf("%s stands here twice", word)
		}
		p.seen[word] = true
		if err := parse(p, d); err != nil {
			return err
		}
		if d.NextArg() {
			return d.Errf("unexpected argument '%s' behind %s", displayName(d.Val()), word)
		}
		if takesBlock := word == "via" || word == "then" || word == "tls_trust_pool"; !takesBlock {
			if err := refuseBlock(d, word); err != nil {
				return err
			}
		}
	}
	if _, err := t.hops(); err != nil {
		return d.WrapErr(err)
	}
	if p.seen["pull_bytes"] && p.seen["read_buffer"] {
		return d.Err("pull_bytes and read_buffer are two names of one thing: keep one")
	}
	if err := t.checkOptions(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// A parser fills a Transport. What stands in it is needed while parsing only.
type parser struct {
	t     *Transport
	seen  map[string]bool
	short bool  // the way came as an argument of `transport tunnel`
	leg   **TLS // where tls_* words go; nil: the origin
}

func (p *parser) tls() *TLS {
	leg := p.leg
	if leg == nil {
		leg = &p.t.TLS
	}
	if *leg == nil {
		*leg = new(TLS)
	}
	return *leg
}

func (p *parser) keepAlive() *reverseproxy.KeepAlive {
	if p.t.KeepAlive == nil {
		p.t.KeepAlive = new(reverseproxy.KeepAlive)
	}
	return p.t.KeepAlive
}

// notBuilt are words of the grammar that this version refuses, each with what to do instead.
var notBuilt = map[string]string{ //nolint:gosec // words of the grammar, no credentials
	"forward_proxy_url":    "write 'via <url>'",
	"tls_pin":              "certificates are verified against tls_trust_pool and a name",
	"tls_min_version":      "TLS 1.2 and 1.3 are spoken",
	"tls_max_version":      "TLS 1.2 and 1.3 are spoken",
	"tls_verify_name":      "tls_server_name is both sent and verified",
	"tls_ciphers":          "the cipher suites are Go's defaults",
	"tls_ech":              "server names travel in the clear",
	"tls_crl":              "revocation is not checked",
	"resolve":              "the origin's name goes to the proxy unresolved",
	"max_conn_age":         "keepalive <duration> closes idle connections",
	"max_conn_requests":    "keepalive <duration> closes idle connections",
	"h2_spread":            "requests share one HTTP/2 connection while it has streams",
	"warm":                 "connections are opened when they are needed",
	"health_via":           "active health checks take the way of the requests, so it must not depend on them",
	"credential":           "header_up can set a header",
	"digest":               "bodies are not hashed",
	"insecure_secrets_log": "TLS secrets are not written",
}

func allowedWords() string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(words)), maps.Keys(tlsWords))
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// refuseBlock refuses a block behind a word that takes none.
func refuseBlock(d *caddyfile.Dispenser, word string) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		return d.Errf("%s takes no block", word)
	}
	return nil
}
