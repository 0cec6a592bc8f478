package tunnel

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestH2Tunnel plays proxies that open a tunnel in ways that are not usual.
func TestH2Tunnel(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		first  string // what the tunnel begins with
	}{
		"C01_two_lengths":            {"<- HEADERS 1 :status=200 content-length=4 content-length=5\n<- DATA 1 \"abcdef\" END_STREAM", "abcdef"},
		"C02_first_bytes_with_reply": {"<- HEADERS 1 :status=200\n<- DATA 1 \"SSH-2.0-o\\r\\n\" END_STREAM", "SSH-2.0-o\r\n"},
		"C02_first_bytes_padded":     {"<- HEADERS 1 :status=200\n<- DATA 1 \"hello\" pad=200\n<- DATA 1 pad=9\n<- DATA 1 \" world\" END_STREAM", "hello world"},
		"C03_reply_in_pieces":        {"<- FRAME 1 0 1 88\n<- FRAME 9 4 1 00 01 61 01 62\n<- DATA 1 \"hello\" END_STREAM", "hello"},
		"C03_frames_bytewise":        {"<- dribble 00 00 01 01 04 00 00 00 01 88 00 00 05 00 01 00 00 00 01 \"hello\"", "hello"},
		"C04_201":                    {"<- HEADERS 1 :status=201\n<- DATA 1 END_STREAM", ""},
		"C04_204":                    {"<- HEADERS 1 :status=204\n<- DATA 1 \"x\" END_STREAM", "x"},
		"C04_299":                    {"<- HEADERS 1 :status=299\n<- DATA 1 \"x\" END_STREAM", "x"},
		"C25_ends_with_the_reply":    {"<- HEADERS 1 :status=200 END_STREAM", ""},
		"V18_interim_then_200":       {"<- HEADERS 1 :status=100\n<- HEADERS 1 :status=103 link=x\n<- HEADERS 1 :status=200\n<- DATA 1 \"x\" END_STREAM", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := scriptBegins(H2, "origin.test:443") + tt.script + "\n-> rest"
				sockets := &sockets{by: script.Config{TLS: scriptTLS(t)}.Dialer(t, text)}
				conn, err := (&Dialer{Hops: []Hop{scriptHop(H2)}, Dial: sockets.dial}).DialContext(context.Background(), "tcp", "origin.test:443")
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(conn); err != nil || string(got) != tt.first {
					t.Errorf("the tunnel begins with %.40q, %v; want %q", got, err, tt.first)
				}
				conn.Close()
				<-time.After(time.Minute)
				if n := sockets.open.Load(); n != 0 {
					t.Errorf("%d sockets are open", n)
				}
			})
		})
	}
}

// TestH2Refusal plays proxies that open no tunnel. A peer that floods has some more taken from it while
// its connection is being closed.
func TestH2Refusal(t *testing.T) {
	const fields = `3000*"\x00\x01a\x01b"` // 15,000 bytes that stand for 102,000
	for name, tt := range map[string]struct {
		script string
		code   Code
		status int
	}{
		"C06_302":                  {"<- HEADERS 1 :status=302 location=http://evil.test/ END_STREAM\n-> rest", ProxyConnectRefused, 302},
		"C06_403":                  {"<- HEADERS 1 :status=403 set-cookie=evil\n<- DATA 1 \"evil\" END_STREAM\n-> rest", ProxyConnectRefused, 403},
		"C07_401":                  {"<- HEADERS 1 :status=401 www-authenticate=evil END_STREAM\n-> rest", ProxyConnectRefused, 401},
		"C08_407":                  {"<- HEADERS 1 :status=407 proxy-authenticate=evil END_STREAM\n-> rest", ProxyAuthRequired, 407},
		"C09_407_body_to_come":     {"<- HEADERS 1 :status=407 content-length=1000000\n<- DATA 1 \"evil\"\n-> RST_STREAM 1\n-> rest", ProxyAuthRequired, 407},
		"C09_403_body_for_ever":    {"<- HEADERS 1 :status=403\n<- forever 00 00 04 00 00 00 00 00 01 \"evil\"", ProxyConnectRefused, 403},
		"C10_at_once":              {"close", ProxyClosed, 0},
		"C10_cut":                  {"<- 00 00\ncut", ProxyClosed, 0},
		"C10_stream_reset":         {"<- RST_STREAM 1 CONNECT_ERROR\n-> rest", ProxyProtocolError, 0},
		"C10_goaway":               {"<- GOAWAY 1 ENHANCE_YOUR_CALM \"evil\"\nclose", ProxyProtocolError, 0},
		"C13_huge_frame":           {"<- forever 00 9c 41 01 04 00 00 00 01 88 40000*\"x\"", ProxyProtocolError, 0},
		"C13_many_fields":          {"<- FRAME 1 0 1 88 " + fields + "\n<- FRAME 9 4 1 " + fields + "\n-> rest", ProxyProtocolError, 0},
		"C13_many_fields_of_407":   {"<- FRAME 1 4 1 48 03 \"407\" " + fields + "\n-> rest", ProxyProtocolError, 0},
		"C13_fields_for_ever":      {"<- FRAME 1 0 1 88\n<- forever 00 3a 98 09 00 00 00 00 01 " + fields, ProxyProtocolError, 0},
		"C13_many_interim_replies": {"<- forever 00 00 05 01 04 00 00 00 01 08 03 \"103\"", ProxyProtocolError, 0},
		"no_status":                {"<- HEADERS 1 x=y\n-> rest", ProxyProtocolError, 0},
	} {
		t.Run(name, func(t *testing.T) {
			hop, peer := listenScript(t, H2, tt.script)
			sockets := new(sockets)
			d := &Dialer{Hops: []Hop{hop}, Dial: sockets.dial, PullBytes: 1 << 10}
			conn, err := d.DialContext(context.Background(), "tcp", "origin.test:443")
			if e := wantCode(t, err, tt.code); e.Status != tt.status || conn != nil || e.Stage != StageConnect {
				t.Errorf("status %d at %s, conn %v; want %d", e.Status, e.Stage, conn, tt.status)
			}
			if strings.Contains(err.Error(), "evil") {
				t.Errorf("the error quotes the proxy: %v", err)
			}
			peer.Wait()
			if n := peer.Accepted(); n != 1 {
				t.Errorf("%d connections", n)
			}
			if n := sockets.read.Load(); n > 1<<20 {
				t.Errorf("%d bytes read", n)
			}
		})
	}
}

// TestH2Again plays proxies that provably did nothing with a request: it goes to a fresh connection, once.
func TestH2Again(t *testing.T) {
	const opens = "<- HEADERS 1 :status=200\n<- DATA 1 \"x\" END_STREAM\n-> rest"
	for name, tt := range map[string]struct {
		scripts []string
		made    int
		code    Code
	}{
		"C10_goaway_below_the_stream":   {[]string{"<- GOAWAY 0 NO_ERROR\n-> rest", opens}, 2, ""},
		"C10_stream_refused":            {[]string{"<- RST_STREAM 1 REFUSED_STREAM\n-> rest", opens}, 2, ""},
		"C10_goaway_each_time":          {[]string{"<- GOAWAY 0 NO_ERROR\n-> rest"}, 2, ProxyProtocolError},
		"C10_stream_refused_each_time":  {[]string{"<- RST_STREAM 1 REFUSED_STREAM\n-> rest"}, 2, ProxyProtocolError},
		"C10_goaway_above_and_no_reply": {[]string{"<- GOAWAY 1 NO_ERROR\nclose"}, 1, ProxyProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			hop, peer := listenScript(t, H2, tt.scripts...)
			conn, err := dial(hop)
			if n := peer.Accepted(); n != tt.made {
				t.Errorf("%d connections, want %d", n, tt.made)
			}
			if tt.code != "" {
				wantCode(t, err, tt.code)
				peer.Wait()
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got, err := io.ReadAll(conn); err != nil || string(got) != "x" {
				t.Errorf("the tunnel begins with %q, %v", got, err)
			}
		})
	}
}
