package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// A scriptedOrigin is an origin that plays a script on each connection, behind a real proxy and Caddy.
type scriptedOrigin struct {
	*server
	bed  *bed
	peer *script.Peer
}

// startScripted starts the origin of a protocol, and Caddy in front of it with a way of the bed. A script that does not say
// itself how its connection begins does so as the protocol has it.
func startScripted(t *testing.T, way, protocol, words string, scripts ...string) *scriptedOrigin {
	t.Helper()
	o := listenScripted(t, protocol, scripts...)
	o.server = startGuarded(t, o.site(way, protocol, words))
	return o
}

// listenScripted is startScripted without Caddy.
func listenScripted(t *testing.T, protocol string, scripts ...string) *scriptedOrigin {
	t.Helper()
	begin := map[string]string{"h1": "tls http/1.1\n", "h2": "tls h2\nh2\n", "h2c": "h2\n"}[protocol]
	all := make([]string, len(scripts))
	for i, text := range scripts {
		if !strings.HasPrefix(text, "tls ") {
			text = begin + text
		}
		all[i] = text
	}
	b := newBed(t)
	return &scriptedOrigin{bed: b, peer: b.scriptConfig().Listen(t, all...)}
}

// site is a site's body that leads to the origin.
func (o *scriptedOrigin) site(way, protocol, words string) string {
	scheme := "http"
	switch protocol {
	case "h1", "h2":
		scheme = "https"
		words += "\ntls_trust_pool file " + o.bed.proxyCA
	case "h2c":
		scheme = "h2c"
	}
	return fmt.Sprintf("reverse_proxy %s://%s {\ntransport tunnel {\n%s\n%s\n}\n}", scheme, o.peer.Addr, o.bed.via(way), words)
}

// asks is the script of the nth request of a connection, counted from 0, and says that of its answer.
func asks(protocol string, nth int, method, body string) string {
	if wireProto(protocol) == "HTTP/2.0" {
		s := fmt.Sprintf("-> HEADERS %d :method=%s", 2*nth+1, method)
		if body != "" {
			s += fmt.Sprintf(" content-length=%d\n-> DATA %d %q END_STREAM", len(body), 2*nth+1, body)
		}
		return s + "\n"
	}
	s := fmt.Sprintf("-> head %q", method+" / HTTP/1.1\r\n")
	if body != "" {
		s += fmt.Sprintf(" %q\n-> %q", fmt.Sprintf("Content-Length: %d\r\n", len(body)), body)
	}
	return s + "\n"
}

func says(protocol string, nth int) string {
	if wireProto(protocol) == "HTTP/2.0" {
		return fmt.Sprintf("<- HEADERS %d :status=200\n<- DATA %d \"ok\" END_STREAM\n", 2*nth+1, 2*nth+1)
	}
	return "<- \"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok\"\n"
}

// answered sends a request and wants the script's answer.
func (o *scriptedOrigin) answered(method, body string) {
	o.t.Helper()
	res, got, err := o.do(method, "/", strings.NewReader(body), nil)
	if err != nil || res.StatusCode != http.StatusOK || string(got) != "ok" {
		o.t.Errorf("%s: %v %q %v", method, res, got, err)
	}
}

// fails sends a request and wants a clean 502, with a code in the log.
func (o *scriptedOrigin) fails(method, body, code string) {
	o.t.Helper()
	before := len(o.failures())
	res, got, err := o.do(method, "/", strings.NewReader(body), nil)
	if err != nil || res.StatusCode != http.StatusBadGateway || len(got) > 0 {
		o.t.Errorf("%s: %v %q %v", method, res, got, err)
	}
	o.loggedCode(o.t, code, before+1)
}

// opened wants so many connections in all, each of them in a tunnel of the bed's proxy.
func (o *scriptedOrigin) opened(way string, n int) {
	o.t.Helper()
	if got, tunnels := o.peer.Accepted(), len(o.bed.proxies[way].Targets()); got != n || tunnels != n {
		o.t.Errorf("%d connections to the origin, %d tunnels, want %d", got, tunnels, n)
	}
}
