package testbed

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

func TestTunnelsCarryEveryByte(t *testing.T) {
	overEach(t, func(t *testing.T, config ProxyConfig) {
		o := newOrigin(t, OriginConfig{})
		p := newProxy(t, config)
		c := newTunnelClient(t, p)
		_, port, _ := net.SplitHostPort(o.Raw)
		tunnel, err := c.open(t, "origin.test:"+port, "")
		if err != nil {
			t.Fatal(err)
		}
		const n = 300_000
		go func() {
			_ = Page(n, tunnel) // a failure shows in what comes back
			_ = tunnel.closeWrite()
		}()
		got, err := io.ReadAll(tunnel)
		if err != nil || string(got) != string(pageBytes(n)) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		seen := p.Seen()
		if len(seen) != 1 || seen[0].Target != "origin.test:"+port || seen[0].LocalAddr == "" || seen[0].Early {
			t.Fatalf("%+v", seen)
		}
		if direct := o.Direct(p); len(direct) != 0 {
			t.Errorf("direct connections: %+v", direct)
		}
		if peers := o.Seen(); len(peers) != 1 || peers[0].RemoteAddr != seen[0].LocalAddr {
			t.Errorf("the origin saw %+v", peers)
		}
		if peers := p.Peers(); len(peers) != 1 || peers[0].Requests != 1 {
			t.Errorf("the proxy saw %+v", peers)
		} else if hello := peers[0].TLS; (hello != nil) != (p.CA() != nil) || hello != nil && (hello.ServerName != "proxy.test" || !hello.Complete || len(hello.Offered) == 0) {
			t.Errorf("TLS %+v", hello)
		}
		if faults := p.Faults(); len(faults) != 0 {
			t.Errorf("faults %q", faults)
		}
	})
}

func TestLoginIsDemanded(t *testing.T) {
	overEach(t, func(t *testing.T, config ProxyConfig) {
		o := newOrigin(t, OriginConfig{})
		config.Username, config.Password = "us", "pä:ss"
		p := newProxy(t, config)
		c := newTunnelClient(t, p)
		for _, login := range []string{"", "us:wrong", "other:pä:ss", "us:pä:ss"} {
			tunnel, err := c.open(t, o.Raw, login)
			if (err == nil) != (login == "us:pä:ss") {
				t.Errorf("%q: %v", login, err)
			}
			var refused *refusal
			if errors.As(err, &refused) && (refused.status != 407 || refused.header.Get("Proxy-Authenticate") == "") {
				t.Errorf("%q: %+v", login, refused)
			}
			if tunnel != nil {
				_ = tunnel.closeWrite() // nothing more is sent
			}
		}
		seen := p.Seen()
		if last := seen[len(seen)-1]; last.User != "us" || last.Password != "pä:ss" {
			t.Errorf("the login seen is %q %q", last.User, last.Password)
		}
		if o.Accepted() > 1 {
			t.Errorf("%d connections to the origin", o.Accepted())
		}
	})
}

func TestTargetsThatCannotBe(t *testing.T) {
	overEach(t, func(t *testing.T, config ProxyConfig) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		closed := l.Addr().String()
		l.Close()
		config.Allow = func(target string) bool { return target != "secret.test:1" }
		p := newProxy(t, config)
		c := newTunnelClient(t, p)
		for target, want := range map[string]struct {
			status int
			reply  byte
		}{closed: {502, 5}, "secret.test:1": {403, 2}} {
			_, err := c.open(t, target, "")
			var refused *refusal
			if err == nil || errors.As(err, &refused) && refused.status != want.status {
				t.Errorf("%s: %v", target, err)
			}
			seen := p.Seen()
			if last := seen[len(seen)-1]; config.Dialect == SOCKS5 && last.Reply != want.reply || config.Dialect != SOCKS5 && last.Status != want.status {
				t.Errorf("%s: %+v", target, last)
			}
		}
	})
}

func TestDialErrorsAsTheyAreAnswered(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		reply  byte
	}{
		{context.DeadlineExceeded, 504, 6},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, 502, 4},
		{io.EOF, 502, 1},
	} {
		if got := dialStatus(c.err); got != c.status {
			t.Errorf("%v: %d", c.err, got)
		}
		if got := dialReply(c.err); got != c.reply {
			t.Errorf("%v: reply %d", c.err, got)
		}
	}
}

func TestH2CarriesManyTunnels(t *testing.T) {
	const streams = 8
	o := newOrigin(t, OriginConfig{})
	p := newProxy(t, ProxyConfig{Dialect: H2, MaxConcurrentStreams: streams})
	c := newTunnelClient(t, p)
	first, err := c.open(t, o.Raw, "") // later ones wait for the settings no more
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range streams - 1 {
		tunnel, err := c.open(t, o.Raw, "")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			n := int64(1000 * (i + 1))
			go func() {
				_ = Page(n, tunnel) // a failure shows in what comes back
				_ = tunnel.closeWrite()
			}()
			if got, err := io.ReadAll(tunnel); err != nil || int64(len(got)) != n {
				t.Errorf("%d bytes of %d, %v", len(got), n, err)
			}
		})
	}
	wg.Wait()
	if p.Accepted() != 1 || p.Conns() != 1 || p.Tunnels() < 1 {
		t.Errorf("%d connections, %d open, %d tunnels", p.Accepted(), p.Conns(), p.Tunnels())
	}
	_ = first.closeWrite() // nothing more is sent
	if _, err := io.ReadAll(first); err != nil {
		t.Error(err)
	}
}

func TestHTTPSThatTakesH2(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	p := newProxy(t, ProxyConfig{Dialect: HTTPS, ALPN: []string{"h2", "http/1.1"}})
	if _, err := newTunnelClient(t, p).open(t, o.Raw, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := newTunnelClientAs(t, p, H2).open(t, o.Raw, ""); err != nil {
		t.Fatal(err)
	}
	peers := p.Peers()
	if peers[0].TLS.ALPN != "http/1.1" || peers[1].TLS.ALPN != "h2" {
		t.Errorf("%+v %+v", peers[0].TLS, peers[1].TLS)
	}
}

func TestH2InsistsOnH2(t *testing.T) {
	p := newProxy(t, ProxyConfig{Dialect: H2})
	for _, offer := range [][]string{nil, {"http/1.1"}} {
		conn := tls.Client(dialTCP(t, "tcp", p.Addr), &tls.Config{RootCAs: p.CA(), ServerName: "proxy.test", NextProtos: offer})
		_, err := io.WriteString(conn, "CONNECT a.test:1 HTTP/1.1\r\nHost: a.test:1\r\n\r\n")
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil {
			t.Errorf("%v: answered", offer)
		}
	}
	if len(p.Faults()) != 2 {
		t.Errorf("faults %q", p.Faults())
	}
}

func TestHTTPGoesOnAfterARefusal(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	p := newProxy(t, ProxyConfig{Dialect: HTTP, Username: "u", Password: "p"})
	conn := dialTCP(t, "tcp", p.Addr)
	br := bufio.NewReader(conn)
	for _, auth := range []string{"", "Proxy-Authorization: Basic dTpw\r\n"} {
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n%s\r\n", o.Raw, auth)
		res, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
		if err != nil {
			t.Fatal(err)
		}
		if auth == "" {
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 407 {
				t.Fatal(res.Status, err)
			}
		} else if res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	}
	if p.Accepted() != 1 || len(p.Seen()) != 2 {
		t.Errorf("%d connections, %+v", p.Accepted(), p.Seen())
	}
}

func TestWhatIsNoRequestIsAFault(t *testing.T) {
	for _, config := range dialects() {
		p := newProxy(t, config)
		conn := dialTCP(t, "tcp", p.Addr)
		_, _ = io.WriteString(conn, "\x00\x01 nonsense\r\n\r\n") // a failure shows below
		if _, err := io.ReadAll(conn); err != nil && config.Dialect == HTTP {
			t.Error(err)
		}
		if faults := p.Faults(); len(faults) != 1 {
			t.Errorf("%s: %q", config.Dialect, faults)
		}
	}
	p := newProxy(t, ProxyConfig{Dialect: HTTP})
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(mustRequest(t, "http://"+p.Addr+"/x"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if seen := p.Seen(); res.StatusCode != 405 || seen[0].Method != "GET" || seen[0].Target != "/x" {
		t.Errorf("%s, %+v", res.Status, seen)
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestURLsAndNames(t *testing.T) {
	overEach(t, func(t *testing.T, config ProxyConfig) {
		config.Hosts = map[string]string{"a.example": "192.0.2.1", "b.example:5": "192.0.2.2:6"}
		p := newProxy(t, config)
		want := string(config.Dialect) + "://" + p.Addr
		if config.Network == "unix" {
			want = string(config.Dialect) + "://unix/" + p.Addr
		}
		if p.URL() != want {
			t.Errorf("%s, want %s", p.URL(), want)
		}
		for target, want := range map[string]string{
			"a.example:1": "192.0.2.1:1", "b.example:5": "192.0.2.2:6", "b.example:6": "b.example:6", "x.test:7": "127.0.0.1:7", "nonsense": "nonsense",
		} {
			if got := p.resolve(target); got != want {
				t.Errorf("%s resolves to %s", target, got)
			}
		}
	})
	if _, err := NewProxy(ProxyConfig{Dialect: "socks4"}); !errors.Is(err, ErrUnknownDialect) {
		t.Errorf("error %v", err)
	}
	if _, err := NewProxy(ProxyConfig{Dialect: HTTP, Addr: "256.0.0.1:1"}); err == nil {
		t.Error("an address that cannot be listened on")
	}
}

func TestDropAndCloseEndTunnels(t *testing.T) {
	overEach(t, func(t *testing.T, config ProxyConfig) {
		o := newOrigin(t, OriginConfig{})
		p := newProxy(t, config)
		for _, end := range []func(){p.DropConns, func() { p.Close() }} {
			tunnel, err := newTunnelClient(t, p).open(t, o.Raw, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tunnel.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(tunnel, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			end()
			if n, err := tunnel.Read(make([]byte, 1)); err == nil {
				t.Errorf("%d bytes from a dead tunnel", n)
			}
		}
		if p.Conns() != 0 || p.Tunnels() != 0 {
			t.Errorf("%d connections, %d tunnels", p.Conns(), p.Tunnels())
		}
	})
}
