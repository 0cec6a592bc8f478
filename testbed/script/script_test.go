package script

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/leak"
	"golang.org/x/net/http2"
)

func TestMain(m *testing.M) { leak.Main(m) }

// send writes each text and closes.
func send(texts ...string) func(net.Conn) {
	return func(conn net.Conn) {
		go io.Copy(io.Discard, conn)
		for _, text := range texts {
			io.WriteString(conn, text)
		}
		conn.Close()
	}
}

// TestDepartures plays against a client in memory: what keeps to the script passes, what departs from it is named.
func TestDepartures(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		client func(net.Conn)
		want   string // in the error; empty: none
	}{
		"items":          {`-> "ab" 00 ff 3*"c"`, send("ab\x00\xffccc"), ""},
		"items_differ":   {`-> "abc"`, send("abd"), `line 1, "-> \"abc\"": got "abd"`},
		"items_cut":      {`-> "abc"`, send("ab"), `got only "ab"`},
		"count":          {"-> 3 bytes\n-> \"d\"", send("abcd"), ""},
		"head":           {`-> head "X: y\r\n" "GET"`, send("GET / HTTP/1.1\r\n", "X: y\r\n\r\n"), ""},
		"head_differs":   {`-> head "X: z\r\n"`, send("GET / HTTP/1.1\r\nX: y\r\n\r\n"), `no "X: z\r\n"`},
		"head_cut":       {`-> head`, send("GET / HTTP/1.1\r\n"), `got only "GET`},
		"eof":            {`-> eof # nothing more`, send(), ""},
		"eof_late":       {`-> eof`, send("x"), `got "x"`},
		"rest":           {`-> rest`, send("x", "y"), ""},
		"quiet":          {"quiet 1s\n-> \"x\"", func(conn net.Conn) { time.Sleep(2 * time.Second); send("x")(conn) }, ""},
		"quiet_broken":   {"wait 1s\nquiet 3s", func(conn net.Conn) { time.Sleep(2 * time.Second); send("x")(conn) }, `got "x"`},
		"quiet_closed":   {"quiet 3s", send(), "has closed"},
		"answers":        {"<- \"a\"\n<- dribble \"bc\"\nclose", func(conn net.Conn) { wantAll(t, conn, "abc") }, ""},
		"forever":        {`<- forever "abc"`, func(conn net.Conn) { io.CopyN(io.Discard, conn, 1<<10); conn.Close() }, ""},
		"no_TLS_config":  {`tls`, send(), "needs Config.TLS"},
		"no_half_close":  {`eof`, send(), "has no half-close"},
		"preface":        {`h2`, send("GET / HTTP/1.1\r\n\r\n"), `got "GET /`},
		"frame_in_place": {"h2\n-> HEADERS", http2Client(func(fr *http2.Framer) { fr.WriteGoAway(0, http2.ErrCodeNo, []byte("bye")) }), `got GOAWAY of stream 0 with NO_ERROR, last stream 0, "bye"`},
		"wrong_code":     {"h2\n-> RST_STREAM 1 CANCEL", http2Client(func(fr *http2.Framer) { fr.WriteRSTStream(1, http2.ErrCodeNo) }), "RST_STREAM of stream 1 with NO_ERROR"},
		"data_in_pieces": {"h2\n-> DATA 1 \"ab\" \"cd\" END_STREAM", http2Client(func(fr *http2.Framer) {
			fr.WriteData(1, false, []byte("abc"))
			fr.WriteData(1, false, []byte("d"))
			fr.WriteData(1, true, nil)
		}), ""},
		"data_differs": {"h2\n-> DATA 1 \"ab\" END_STREAM", http2Client(func(fr *http2.Framer) { fr.WriteData(1, true, []byte("a")) }), `got only "a"`},
		"pings":        {"h2\n-> PING\n<- PING\n-> PING ACK\n-> eof", http2Client(func(fr *http2.Framer) { fr.WritePing(false, [8]byte{1}); fr.WritePing(true, [8]byte{2}) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := memory()
				go test.client(near)
				err := newPlayer(far, Config{}, nil).play(mustParse(t, test.script)[0])
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("error = %v, want %q", err, test.want)
				}
			})
		})
	}
}

func wantAll(t *testing.T, conn net.Conn, want string) {
	if got, err := io.ReadAll(conn); err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	conn.Close()
}

// http2Client begins HTTP/2, lets f write frames and closes.
func http2Client(f func(*http2.Framer)) func(net.Conn) {
	return func(conn net.Conn) {
		go io.Copy(io.Discard, conn)
		io.WriteString(conn, http2.ClientPreface)
		fr := http2.NewFramer(conn, nil)
		fr.WriteSettings(http2.Setting{ID: http2.SettingEnablePush})
		f(fr)
		conn.Close()
	}
}

func TestParse(t *testing.T) {
	for script, want := range map[string]string{
		"":                                    "",
		"# nothing\n\n  \n":                   "",
		"jump":                                "is not a step",
		"\nclose now":                         `line 2, "close now": wants nothing`,
		"wait":                                "wants a duration",
		"wait soon":                           "invalid duration",
		"->":                                  "wants what is to come",
		"<-":                                  "wants what to send",
		"-> 5":                                `"5" is neither`,
		"-> 0g":                               `"0g" is neither`,
		`<- "a`:                               "line 1: invalid syntax",
		`<- "\q"`:                             "invalid syntax",
		"<- forever":                          "wants what to repeat",
		"<- HEADERS":                          "wants a stream",
		"<- HEADERS 1 status":                 `"status" is not a field`,
		"<- RST_STREAM 1 BAD":                 "wants an error code",
		"<- SETTINGS MAX_STREAMS=1":           "is not a setting",
		"-> HEADERS 1 END":                    `does not know "END"`,
		"-> FRAME 1":                          "can only be sent",
		"<- FRAME 1 2":                        "wants a type",
		`<- HEADERS 1 :status=200 x="a b" y=`: "",
		`<- FRAME 0xee 0x1 3 "x"`:             "",
	} {
		if _, err := parse(script); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error = %v, want %q", script, err, want)
		}
	}
}

// TestPeer plays over TCP: TLS within, half-close, reset, one script a connection.
func TestPeer(t *testing.T) {
	authority, err := testbed.NewAuthority("script")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Issue(testbed.CertRequest{Names: []string{"peer.test"}})
	if err != nil {
		t.Fatal(err)
	}
	peer := Config{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}.Listen(t, `
		-> "plain"
		tls h2 http/1.1
		-> "secret"
		<- "answer"
		-> eof`,
		"-> \"x\"\neof\n-> rest",
		"-> \"x\"\nreset",
	)
	dial := func() *net.TCPConn {
		conn, err := net.Dial("tcp", peer.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn.(*net.TCPConn)
	}

	conn := dial()
	io.WriteString(conn, "plain")
	inner := tls.Client(conn, &tls.Config{RootCAs: authority.Pool(), ServerName: "peer.test", NextProtos: []string{"http/1.1"}})
	io.WriteString(inner, "secret")
	if got, err := io.ReadAll(io.LimitReader(inner, 6)); string(got) != "answer" || inner.ConnectionState().NegotiatedProtocol != "http/1.1" {
		t.Errorf("got %q, %v, %+v", got, err, inner.ConnectionState())
	}
	inner.Close()

	conn = dial()
	io.WriteString(conn, "x")
	if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
		t.Errorf("after a half-close: %q, %v", got, err)
	}
	if peer.Open() == 0 {
		t.Error("none is open")
	}
	io.WriteString(conn, "more")
	conn.Close()

	conn = dial()
	io.WriteString(conn, "x")
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("no error after a reset")
	}
	peer.Wait()
	if peer.Open() != 0 {
		t.Errorf("%d are open", peer.Open())
	}
	if heard := string(peer.Heard(0)); heard != "plainsecret" {
		t.Errorf("heard %q", heard)
	}
	if heard := string(peer.Heard(1)); heard != "xmore" || peer.Accepted() != 3 || peer.Heard(3) != nil {
		t.Errorf("heard %q on %d connections", heard, peer.Accepted())
	}
}

// TestHTTP2 has net/http for the other side.
func TestHTTP2(t *testing.T) {
	peer := Listen(t, `
		h2
		-> HEADERS 1 :path=/a :method=POST
		<- SETTINGS MAX_CONCURRENT_STREAMS=9
		-> DATA 1 10000*"0123456789" END_STREAM
		<- HEADERS 1 :status=103 link=x
		<- HEADERS 1 :status=200 x="a b"
		<- DATA 1 "good" pad=7
		<- FRAME 0xee 0 0 "unknown"
		<- DATA 1 " day"
		<- HEADERS 1 grpc-status=0 END_STREAM
		-> eof`)
	conn, err := net.Dial("tcp", peer.Addr)
	if err != nil {
		t.Fatal(err)
	}
	client := newHTTP2(t, conn)
	res, err := client.Post("http://"+peer.Addr+"/a", "", strings.NewReader(strings.Repeat("0123456789", 10000)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "good day" || res.Trailer.Get("Grpc-Status") != "0" || res.Header.Get("X") != "a b" {
		t.Errorf("got %q, %v, %v", body, err, res)
	}
	conn.Close()
	peer.Wait()
}

// TestUnfinished stops a peer in the midst of scripts: only those that hold the connection may be.
func TestUnfinished(t *testing.T) {
	for script, holds := range map[string]bool{"-> rest": true, "-> eof": true, "-> 5 bytes": false, "wait 1h": false} {
		near, far := memory()
		done := make(chan struct{})
		ended := make(chan error)
		p := newPlayer(far, Config{}, done)
		go func() { ended <- p.play(mustParse(t, script)[0]) }()
		close(done)
		p.socket.Close()
		var d *departure
		if err := <-ended; !errors.As(err, &d) || d.step.holds != holds {
			t.Errorf("%s: %v", script, err)
		}
		near.Close()
	}
}
