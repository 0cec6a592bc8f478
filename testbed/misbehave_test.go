package testbed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// exchange sends a request for a tunnel to the raw echo port, in the bytes of the dialect, and a word behind it once
// the answer of size bytes has come. It is for the dialects without TLS.
type exchange struct {
	net.Conn
	t *testing.T
}

func newExchange(t *testing.T, p *Proxy) exchange { return exchange{dialTCP(t, p.Network, p.Addr), t} }

func (e exchange) send(s string) {
	e.t.Helper()
	if _, err := io.WriteString(e, s); err != nil {
		e.t.Fatal(err)
	}
}

func (e exchange) expect(want string) {
	e.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(e, got); err != nil || string(got) != want {
		e.t.Fatalf("<- %q, want %q, %v", got[:n], want, err)
	}
}

// expectEnd expects no more bytes.
func (e exchange) expectEnd() {
	e.t.Helper()
	if rest, err := io.ReadAll(e); len(rest) != 0 || err != nil && !isReset(err) {
		e.t.Fatalf("<- %q, %v, want the end", rest, err)
	}
}

func isReset(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

// expectSilence expects the connection to stay open without a byte for as long as it is looked at.
func (e exchange) expectSilence() {
	e.t.Helper()
	if err := e.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		e.t.Fatal(err)
	}
	n, err := e.Read(make([]byte, 1))
	var timeout net.Error
	if n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
		e.t.Fatalf("<- %d bytes, %v, want silence", n, err)
	}
}

func connectTo(target string) string {
	return fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target)
}

// socksTo is a request for a name on the port of target.
func socksTo(t *testing.T, target string) string {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	return "\x05\x01\x00\x03\x0borigin.test" + string([]byte{byte(addr.Port >> 8), byte(addr.Port)})
}

func TestSilenceAndClosing(t *testing.T) {
	for _, config := range dialects() {
		for _, moment := range []Moment{AtAccept, AtGreeting, AtRequest} {
			t.Run(fmt.Sprintf("%s_%s", config.Dialect, moment), func(t *testing.T) {
				p := newProxy(t, config)
				p.SetMisbehave(Misbehave{Close: moment})
				if _, err := newTunnelClient(t, p).open(t, "x.test:1", ""); err == nil {
					t.Error("a tunnel of a proxy that closes")
				}
				if got := len(p.Seen()); (got > 0) != (moment == AtRequest) {
					t.Errorf("%d requests seen", got)
				}

				p.SetMisbehave(Misbehave{Silent: moment})
				done := make(chan error, 1)
				go func() {
					_, err := newTunnelClient(t, p).open(t, "x.test:1", "")
					done <- err
				}()
				waitFor(t, "the connection", func() bool { return p.Accepted() == 2 && (moment != AtRequest || len(p.Seen()) > 1) })
				select {
				case err := <-done:
					t.Errorf("answered: %v", err)
				default:
				}
				p.Close()
				if err := <-done; err == nil {
					t.Error("a tunnel of a silent proxy")
				}
			})
		}
	}
}

func TestSilentProxySeesItsClientGo(t *testing.T) {
	p := newProxy(t, ProxyConfig{Dialect: HTTP, Misbehave: Misbehave{Silent: AtAccept}})
	e := newExchange(t, p)
	e.send("anything")
	e.expectSilence()
	e.Close()
	waitFor(t, "the connection to end", func() bool { return p.Accepted() == 1 && p.Conns() == 0 })
}

// waitFor waits until what is said has happened.
func waitFor(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited in vain for " + what)
		}
	}
}

func TestGarbage(t *testing.T) {
	for _, config := range dialects() {
		config.Misbehave.Garbage = []byte("SSH-2.0-OpenSSH_10.0\r\n")
		p := newProxy(t, config)
		e := newExchange(t, p)
		e.expect("SSH-2.0-OpenSSH_10.0\r\n")
		e.expectSilence()
	}
}

func TestStatusesAndBodies(t *testing.T) {
	for _, config := range dialects() {
		if config.Dialect == SOCKS5 {
			continue
		}
		t.Run(string(config.Dialect), func(t *testing.T) {
			o := newOrigin(t, OriginConfig{})
			p := newProxy(t, config)
			c := newTunnelClient(t, p)
			for _, status := range []int{302, 401, 403, 407, 502, 503, 504} {
				m := Misbehave{Status: status, Body: "<h1>no</h1>", Header: map[string][]string{"Set-Cookie": {"a=b"}}}
				p.SetMisbehave(m)
				_, err := c.open(t, o.Raw, "")
				var refused *refusal
				if !errors.As(err, &refused) || refused.status != status || refused.body != m.Body || refused.header.Get("Set-Cookie") != "a=b" {
					t.Errorf("%d: %v", status, err)
				}
				if m.Header["Proxy-Authenticate"] != nil {
					t.Error("the configured header has changed")
				}
			}
			if o.Accepted() != 0 {
				t.Errorf("%d connections to the origin", o.Accepted())
			}
			success := 204
			if config.Dialect == H2 {
				success = 201
			}
			p.SetMisbehave(Misbehave{Status: success})
			tunnel, err := c.open(t, o.Raw, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tunnel.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(tunnel, make([]byte, 1)); err != nil {
				t.Error(success, "does not open the tunnel:", err)
			}
		})
	}
}

func TestRawReplies(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	const reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
	p := newProxy(t, ProxyConfig{Dialect: HTTP, Misbehave: Misbehave{RawReply: []byte(reply)}})
	e := newExchange(t, p)
	e.send(connectTo(o.Raw)) // ->
	e.expect(reply)          // <-
	e.send("through")        // ->
	e.expect("through")      // <-

	p.SetMisbehave(Misbehave{RawReply: []byte("HTTP/1.1 407 Log in\r\n"), CloseAfterReply: true})
	e = newExchange(t, p)
	e.send(connectTo(o.Raw))
	e.expect("HTTP/1.1 407 Log in\r\n")
	e.expectEnd()

	s := newProxy(t, ProxyConfig{Dialect: SOCKS5, Misbehave: Misbehave{RawReply: []byte("\x05\x00\x00\x03\x00\x00\x00")}})
	e = newExchange(t, s)
	e.send("\x05\x01\x00")
	e.expect("\x05\x00")
	e.send(socksTo(t, o.Raw))
	e.expect("\x05\x00\x00\x03\x00\x00\x00")
	e.send("through")
	e.expect("through")
}

func TestFloods(t *testing.T) {
	for _, kind := range []Flood{FloodField, FloodFields, FloodInterim} {
		p := newProxy(t, ProxyConfig{Dialect: HTTP, Misbehave: Misbehave{Flood: kind}})
		e := newExchange(t, p)
		e.send(connectTo("x.test:1"))
		got := make([]byte, 256<<10)
		if _, err := io.ReadFull(e, got); err != nil {
			t.Fatal(err)
		}
		if ended := bytes.Contains(got, []byte("\r\n\r\n")); ended != (kind == FloodInterim) || !bytes.HasPrefix(got, []byte("HTTP/1.1 ")) {
			t.Errorf("%s: %q ...", kind, got[:100])
		}
		e.Close()
		waitFor(t, "the connection to end", func() bool { return p.Conns() == 0 })
	}
}

// reads returns the sizes of the reads in which bytes came.
func (e exchange) reads(n int) (sizes []int, all string) {
	e.t.Helper()
	buf := make([]byte, 1<<10)
	for len(all) < n {
		k, err := e.Read(buf)
		if err != nil {
			e.t.Fatal(err)
		}
		sizes = append(sizes, k)
		all += string(buf[:k])
	}
	return sizes, all
}

func TestAnswersInPieces(t *testing.T) {
	o := newOrigin(t, OriginConfig{Banner: "220 ready\r\n"})
	const ok = "HTTP/1.1 200 OK\r\n\r\n"
	p := newProxy(t, ProxyConfig{Dialect: HTTP})

	p.SetMisbehave(Misbehave{Coalesce: true})
	e := newExchange(t, p)
	e.send(connectTo(o.Raw))
	sizes, all := e.reads(len(ok) + 11)
	if len(sizes) != 1 || all != ok+"220 ready\r\n" {
		t.Errorf("%v %q", sizes, all)
	}
	e.send("x")
	e.expect("x")

	p.SetMisbehave(Misbehave{HoldLast: 20 * time.Millisecond})
	e = newExchange(t, p)
	e.send(connectTo(o.Raw))
	if sizes, all := e.reads(len(ok) + 11); sizes[0] != len(ok)-1 || all != ok+"220 ready\r\n" {
		t.Errorf("%v %q", sizes, all)
	}

	p.SetMisbehave(Misbehave{Dribble: true})
	e = newExchange(t, p)
	e.send(connectTo(o.Raw))
	e.expect(ok + "220 ready\r\n")
}

func TestEarlyBytesAreSeen(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	for _, dialect := range []Dialect{HTTP, SOCKS5} {
		for _, early := range []bool{false, true} {
			for _, delay := range []time.Duration{0, 30 * time.Millisecond} {
				p := newProxy(t, ProxyConfig{Dialect: dialect, Misbehave: Misbehave{Delay: delay}})
				e := newExchange(t, p)
				request := connectTo(o.Raw)
				if dialect == SOCKS5 {
					e.send("\x05\x01\x00")
					e.expect("\x05\x00")
					request = socksTo(t, o.Raw)
				}
				if early {
					request += "early"
				}
				e.send(request)
				e.reads(10)
				e.send("late")
				_, all := e.reads(4)
				if early && !strings.Contains(all, "early") && !strings.Contains(all, "late") {
					t.Errorf("%s: %q", dialect, all)
				}
				if got := p.Seen()[0].Early; got != early {
					t.Errorf("%s, delay %v: early bytes %v, want %v", dialect, delay, got, early)
				}
			}
		}
	}
}

func TestDelayAndCutOverEach(t *testing.T) {
	overEach(t, func(t *testing.T, config ProxyConfig) {
		o := newOrigin(t, OriginConfig{})
		config.Misbehave = Misbehave{Delay: 5 * time.Millisecond, CutAfter: 1000}
		p := newProxy(t, config)
		tunnel, err := newTunnelClient(t, p).open(t, o.Raw, "")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = Page(5000, tunnel) }() // fails where the tunnel is cut
		got, err := io.ReadAll(tunnel)
		if !bytes.Equal(got, pageBytes(1000)) || config.Dialect == H2 && err == nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		waitFor(t, "the tunnel to end", func() bool { return p.Tunnels() == 0 && o.Conns() == 0 })
	})
}

func TestResetOfTheTargetReachesTheClient(t *testing.T) {
	overEach(t, func(t *testing.T, config ProxyConfig) {
		o := newOrigin(t, OriginConfig{})
		p := newProxy(t, config)
		tunnel, err := newTunnelClient(t, p).open(t, o.Plain, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tunnel, "GET /broken/reset HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(tunnel)
		if config.Network == "tcp" && err == nil || config.Dialect == H2 && err == nil {
			t.Errorf("%q and a proper end", got)
		}
		waitFor(t, "the tunnel to end", func() bool { return p.Tunnels() == 0 })
	})
}
