package caddymodule

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// TestUpgradeBesideHTTP2 upgrades at an origin that takes HTTP/2 where it is offered: each upgrade has an HTTP/1.1 connection of
// its own, and the connection that is there already carries on.
func TestUpgradeBesideHTTP2(t *testing.T) {
	const upgraded = `-> head "GET / HTTP/1.1\r\n" "Connection: Upgrade\r\n" "Upgrade: websocket\r\n"
		<- "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"
		-> "ping"
		<- "pong"
		-> eof`
	for protocol, begin := range map[string]string{"h2": "tls h2 http/1.1\n", "h2c": ""} {
		for _, way := range bedWays[1:] {
			t.Run("H13_"+protocol+"_"+way, func(t *testing.T) {
				other := begin + "h2\n"
				for i, method := range []string{"GET", "POST", "GET"} {
					other += asks(protocol, i, method, map[string]string{"POST": "data"}[method]) + says(protocol, i)
				}
				o := listenScripted(t, "", other+"-> rest", begin+upgraded)
				o.server = startGuarded(t, o.site(way, protocol, ""))
				o.answered("GET", "")
				first := o.upgrade()
				o.answered("POST", "data")
				second := o.upgrade()
				o.answered("GET", "")
				first()
				second()
				awaitTrue(t, "the upgrades to end", func() bool { return len(o.logged("handled request")) == 5 })
				o.opened(way, 3)
				onlyHarmlessSettings(t, o.peer.Heard(0))
			})
		}
	}
}

// upgrade upgrades a connection of a client's, and returns what talks on it and closes it.
func (o *scriptedOrigin) upgrade() (talk func()) {
	o.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(o.url, "http://"))
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		o.t.Fatal(res, err)
	}
	return func() {
		o.t.Helper()
		io.WriteString(conn, "ping")
		got := make([]byte, len("hellopong"))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != "hellopong" {
			o.t.Errorf("%q, %v", got, err)
		}
		conn.Close()
	}
}

// onlyHarmlessSettings checks what a client's HTTP/2 begins with: no setting that a box in the middle may not know, least of all the
// one for upgrades over HTTP/2, which is a server's.
func onlyHarmlessSettings(t *testing.T, heard []byte) {
	t.Helper()
	frames, ok := bytes.CutPrefix(heard, []byte(http2.ClientPreface))
	f, err := http2.NewFramer(nil, bytes.NewReader(frames)).ReadFrame()
	settings, isSettings := f.(*http2.SettingsFrame)
	if !ok || err != nil || !isSettings {
		t.Fatalf("HTTP/2 begins with %.50q", heard)
	}
	if push, said := settings.Value(http2.SettingEnablePush); !said || push != 0 {
		t.Error("pushes are not forbidden")
	}
	_ = settings.ForeachSetting(func(s http2.Setting) error {
		if s.ID < http2.SettingHeaderTableSize || s.ID > http2.SettingMaxHeaderListSize {
			t.Errorf("sent %v", s)
		}
		return nil
	})
}
