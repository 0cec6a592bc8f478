package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
	"golang.org/x/net/nettest"
)

// tunnels makes pairs of a tunnel over hops, and its far end.
func tunnels(t *testing.T, hops []Hop) nettest.MakePipe {
	carriers := new(Carriers)
	t.Cleanup(carriers.Close)
	return func() (net.Conn, net.Conn, func(), error) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		defer ln.Close()
		near, err := (&Dialer{Hops: hops, Carriers: carriers}).DialContext(context.Background(), "tcp", ln.Addr().String())
		if err != nil {
			return nil, nil, nil, err
		}
		far, err := ln.Accept()
		if err != nil {
			near.Close()
			return nil, nil, nil, err
		}
		return near, far, func() { near.Close(); far.Close() }, nil
	}
}

func TestTunnelIsNetConn(t *testing.T) {
	ways(t, []Dialect{Direct, HTTP, H2, SOCKS5}, func(t *testing.T, hops []Hop) {
		nettest.TestConn(t, tunnels(t, hops))
	})
}

// A write that times out ends a connection of crypto/tls: it may have sent a part of a record. So these subtests,
// which write again after such a timeout, cannot pass over HTTPS; and nettest has no way to leave them out but the
// one of package testing, which needs a process of its own.
const stickyWriteTimeout = "PastTimeout|FutureTimeout|ConcurrentMethods"

const onlyNetConnChild = "TUNNEL_TEST_NETCONN_CHILD"

func TestHTTPSTunnelIsNetConn(t *testing.T) {
	if os.Getenv(onlyNetConnChild) != "" {
		ways(t, []Dialect{HTTPS}, func(t *testing.T, hops []Hop) { nettest.TestConn(t, tunnels(t, hops)) })
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=1m",
		"-test.run=^TestHTTPSTunnelIsNetConn$", "-test.skip=/https/("+stickyWriteTimeout+")$")
	child.Env = append(os.Environ(), onlyNetConnChild+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := regexp.MustCompile(`--- PASS: TestHTTPSTunnelIsNetConn/https/(\w+)`).FindAllStringSubmatch(string(out), -1)
	if want := 11 - strings.Count(stickyWriteTimeout, "|") - 1; len(passed) != want {
		t.Errorf("%d subtests passed, want %d:\n%s", len(passed), want, out)
	}
}

// A conn in front of which bytes are stitched is one like any other, once they are read.
func TestPrefixConnIsNetConn(t *testing.T) {
	direct := tunnels(t, []Hop{{Dialect: Direct}})
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		near, far, stop, err := direct()
		if err != nil {
			return nil, nil, nil, err
		}
		conn := newPrefixConn(near, []byte("prefix"))
		_, err = io.ReadFull(conn, make([]byte, len("prefix")))
		return conn, far, stop, err
	})
}

func TestPrefixConn(t *testing.T) {
	near, far, stop, err := tunnels(t, []Hop{{Dialect: Direct}})()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	conn := newPrefixConn(near, []byte("abcdef"))
	read := func(n int) (string, error) {
		buf := make([]byte, n)
		n, err := conn.Read(buf)
		return string(buf[:n]), err
	}
	if got, err := read(2); got != "ab" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	conn.SetReadDeadline(time.Unix(1, 0))
	if got, err := read(2); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past the deadline: read %q, %v", got, err)
	}
	conn.SetDeadline(time.Time{})
	far.Write([]byte("gh"))
	for _, want := range []string{"cdef", "gh"} {
		if got, err := read(10); got != want || err != nil {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(far); len(got) != 0 || err != nil {
		t.Errorf("the far end reads %q, %v", got, err)
	}
	conn = newPrefixConn(near, []byte("never read"))
	conn.Close()
	if got, err := read(1); got != "" || !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: read %q, %v", got, err)
	}
}

// Half-close goes through every dialect, and what the far end says first arrives whole.
func TestTunnelCarriesBytes(t *testing.T) {
	const greeting = "220 ready\r\n"
	text := strings.Repeat("0123456789abcdef", 20_000)
	target := startEcho(t, greeting)
	ways(t, append([]Dialect{Direct}, proxied...), func(t *testing.T, hops []Hop) {
		conn, err := (&Dialer{Hops: hops}).DialContext(context.Background(), "tcp", target)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		wantEcho(t, conn, greeting, text)
	})
}

// C02: a target that speaks first, behind a proxy that sends its words with the reply.
func TestC02_TargetSpeaksFirst(t *testing.T) {
	target := startEcho(t, "hello world")
	for _, dialect := range []testbed.Dialect{testbed.HTTP, testbed.HTTPS, testbed.SOCKS5} {
		t.Run(string(dialect), func(t *testing.T) {
			p := startProxy(t, testbed.ProxyConfig{Dialect: dialect, Misbehave: testbed.Misbehave{Coalesce: true}})
			conn, err := (&Dialer{Hops: []Hop{hopTo(p)}}).DialContext(context.Background(), "tcp", target)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			got := make([]byte, len("hello world"))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello world" {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}
