package testbed

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/websocket"
)

// overBoth runs f on a cleartext and a TLS connection to the origin.
func overBoth(t *testing.T, f func(t *testing.T, conn net.Conn)) {
	o := newOrigin(t, OriginConfig{})
	t.Run("cleartext", func(t *testing.T) { f(t, dialTCP(t, "tcp", o.Plain)) })
	t.Run("tls", func(t *testing.T) {
		f(t, tls.Client(dialTCP(t, "tcp", o.TLSH1), &tls.Config{RootCAs: o.CA(), ServerName: "localhost"}))
	})
}

func TestWebSocketEchoesKinds(t *testing.T) {
	overBoth(t, func(t *testing.T, conn net.Conn) {
		cfg, err := websocket.NewConfig("ws://localhost/ws", "http://localhost/")
		if err != nil {
			t.Fatal(err)
		}
		ws, err := websocket.NewClient(cfg, conn)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		for _, n := range []int64{0, 1, 200, 70_000} {
			if err := websocket.Message.Send(ws, pageBytes(n)); err != nil {
				t.Fatal(err)
			}
			var got []byte
			if err := websocket.Message.Receive(ws, &got); err != nil || !bytes.Equal(got, pageBytes(n)) {
				t.Fatalf("%d of %d bytes, %v", len(got), n, err)
			}
		}
		var kind byte
		codec := websocket.Codec{Unmarshal: func(_ []byte, k byte, _ any) error { kind = k; return nil }}
		for _, v := range []any{"text", []byte("binary")} {
			if err := websocket.Message.Send(ws, v); err != nil {
				t.Fatal(err)
			}
			if err := codec.Receive(ws, nil); err != nil {
				t.Fatal(err)
			}
			_, text := v.(string)
			if text != (kind == websocket.TextFrame) {
				t.Errorf("%v comes back as frame of kind %d", v, kind)
			}
		}
	})
}

func upgraded(t *testing.T, conn net.Conn, protocol, query string) *bufio.Reader {
	t.Helper()
	fmt.Fprintf(conn, "GET /upgrade%s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nearly", query, protocol)
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != protocol {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	return br
}

func TestUpgradeEchoWithHalfClose(t *testing.T) {
	overBoth(t, func(t *testing.T, conn net.Conn) {
		br := upgraded(t, conn, "echo", "?banner=hello")
		go func() {
			_ = Page(300_000, conn) // a failure shows in what comes back
			_ = conn.(interface{ CloseWrite() error }).CloseWrite()
		}()
		got, err := io.ReadAll(br)
		if want := append([]byte("helloearly"), pageBytes(300_000)...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
		}
	})
}

func TestUpgradeSumAnswersAfterTheEnd(t *testing.T) {
	overBoth(t, func(t *testing.T, conn net.Conn) {
		br := upgraded(t, conn, "sum", "")
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(br)
		if want := fmt.Sprintf("5 %x\n", sha256.Sum256([]byte("early"))); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestUpgradesAreRefusedWhereTheyCannotBe(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		for _, path := range []string{"/ws", "/upgrade"} {
			if res, _ := get(t, c, m.base(o)+path); res.StatusCode != http.StatusUpgradeRequired {
				t.Errorf("%s: %s", path, res.Status)
			}
		}
	})
}

func TestRawEcho(t *testing.T) {
	o := newOrigin(t, OriginConfig{Banner: "220 ready\r\n"})
	conn := dialTCP(t, "tcp", o.Raw)
	go func() {
		_ = Page(100_000, conn) // a failure shows in what comes back
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if want := append([]byte("220 ready\r\n"), pageBytes(100_000)...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
	}
}
