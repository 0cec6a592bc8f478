package caddymodule

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestWebSocket echoes messages over every way, to origins that would rather speak HTTP/2.
func TestWebSocket(t *testing.T) {
	each(t, "max_body_bytes 64KiB", func(t *testing.T, _ *bed, s *server, way, protocol string) {
		conn, err := websocket.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/ws", "", s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// More than the cap, which is not for upgraded streams.
		for i, n := range []int{1, 1000, 60_000, 60_000} {
			sent := bytes.Repeat([]byte{byte('a' + i)}, n)
			if err := websocket.Message.Send(conn, sent); err != nil {
				t.Fatal(err)
			}
			var got []byte
			if err := websocket.Message.Receive(conn, &got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("message %d: got %d bytes of %d, %v", i, len(got), n, err)
			}
		}
		// Caddy v2.11.9 counts bytes of an upgraded connection without a lock when a config ends, so the stream ends first.
		conn.Close()
		s.awaitLogged("handled request")
	})
}

// TestUpgradeHalfClose upgrades to a protocol whose answer comes only after the client has ended its direction.
func TestUpgradeHalfClose(t *testing.T) {
	for _, way := range bedWays {
		for _, protocol := range []string{"h1", "h1-cleartext"} {
			t.Run(way+"/"+protocol, func(t *testing.T) {
				b := newBed(t)
				s := startCaddy(t, b.site(way, protocol, "", ""))
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprintf(conn, "GET /upgrade?banner=hello HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: sum\r\n\r\n")
				r := bufio.NewReader(conn)
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
					t.Fatalf("%v %v", res, err)
				}
				banner := make([]byte, 5)
				if _, err := io.ReadFull(r, banner); err != nil || string(banner) != "hello" {
					t.Fatalf("the bytes that came with the 101: %q, %v", banner, err)
				}
				const n = 1 << 20
				sum := sha256.New()
				if err := testbed.Page(n, io.MultiWriter(conn, sum)); err != nil {
					t.Fatal(err)
				}
				if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(r)
				if want := hex.EncodeToString(sum.Sum(nil)); err != nil || !strings.Contains(string(answer), want) {
					t.Errorf("answer %q, %v; want the sum %s", answer, err, want)
				}
			})
		}
	}
}

// TestGRPC echoes messages one by one over a stream that stays open both ways, and gets its trailers.
func TestGRPC(t *testing.T) {
	for _, way := range bedWays {
		for _, protocol := range []string{"h2", "h2c"} {
			t.Run(way+"/"+protocol, func(t *testing.T) {
				b := newBed(t)
				s := startCaddy(t, b.site(way, protocol, "", ""))
				protocols := new(http.Protocols)
				protocols.SetUnencryptedHTTP2(true)
				client := http.Client{Transport: &http.Transport{Protocols: protocols, DisableCompression: true}}
				defer client.CloseIdleConnections()
				body, stream := io.Pipe()
				req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/grpc", body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/grpc")
				req.Header.Set("Te", "trailers")
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if te := res.Header.Get("X-Te"); te != "trailers" {
					t.Errorf("the origin got TE %q", te)
				}
				for i := range 3 {
					sent := binary.BigEndian.AppendUint32([]byte{0}, 3)
					sent = fmt.Appendf(sent, "m-%d", i)
					if _, err := stream.Write(sent); err != nil {
						t.Fatal(err)
					}
					got := make([]byte, len(sent))
					if _, err := io.ReadFull(res.Body, got); err != nil || !bytes.Equal(got, sent) {
						t.Fatalf("message %d: %q, %v", i, got, err)
					}
				}
				stream.Close()
				if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
					t.Errorf("behind the messages: %q, %v", rest, err)
				}
				if got := res.Trailer.Get("Grpc-Status"); got != "0" {
					t.Errorf("grpc-status %q", got)
				}
				res, err = client.Post(s.url+"/grpc?status=7&trailers-only", "application/grpc", nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if got := res.Header.Get("Grpc-Status") + res.Trailer.Get("Grpc-Status"); got != "7" {
					t.Errorf("trailers-only: grpc-status %q", got)
				}
			})
		}
	}
}

// TestUpgradeUncapped upgrades where bodies are decoded and capped at less than what goes through: none of it is for upgraded
// streams, whatever the head of the 101 says.
func TestUpgradeUncapped(t *testing.T) {
	const size = 100_000
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: copy\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n"
	origin := script.Listen(t, fmt.Sprintf("-> head \"Upgrade: copy\"\n<- %q \"first\"\n-> %d*\"u\"\n<- %d*\"d\"\n-> eof\n<- \"last\"\nclose", answer, size, size))
	b := newBed(t)
	var site strings.Builder
	for _, way := range bedWays {
		fmt.Fprintf(&site, "handle_path /raw_%s/* {\nreverse_proxy %s {\ntransport tunnel {\n%s\ndecode\nmax_body_bytes 1KiB\n}\n}\n}\n", way, origin.Addr, b.via(way))
	}
	s := startCaddy(t, site.String()+b.legSites("", "decode\nmax_body_bytes 1KiB", ""))
	for _, way := range bedWays {
		t.Run("B20_"+way, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET /raw_%s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: copy\r\n\r\n", way)
			r := bufio.NewReader(conn)
			for line := ""; line != "\r\n"; {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			conn.Write(bytes.Repeat([]byte("u"), size))
			got := make([]byte, len("first")+size)
			if _, err := io.ReadFull(r, got); err != nil || string(got) != "first"+strings.Repeat("d", size) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			conn.(*net.TCPConn).CloseWrite()
			if rest, err := io.ReadAll(r); err != nil || string(rest) != "last" {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
	for _, l := range bodyLegs {
		t.Run("B20_websocket_"+l.name(), func(t *testing.T) {
			conn, err := websocket.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/"+l.name()+"/ws", "", s.url)
			if err != nil {
				t.Fatal(err)
			}
			sent := bytes.Repeat([]byte{'x'}, 60_000)
			if err := websocket.Message.Send(conn, sent); err != nil {
				t.Fatal(err)
			}
			var got []byte
			if err := websocket.Message.Receive(conn, &got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("got %d bytes, %v", len(got), err)
			}
			ended := len(s.logged("handled request"))
			conn.Close()
			awaitTrue(t, "the stream to end", func() bool { return len(s.logged("handled request")) > ended })
		})
	}
	if e := append(s.failures(), s.logged("response body failed")...); len(e) > 0 {
		t.Errorf("logged %v", e)
	}
}
