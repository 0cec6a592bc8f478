package tlsuser

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	scripted "github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestCut tells a connection that TLS has closed from one that was closed beneath it.
func TestCut(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	for name, version := range map[string]uint16{"TLS1.2": tls.VersionTLS12, "TLS1.3": tls.VersionTLS13} {
		for _, end := range []string{"close", "cut", "reset"} {
			t.Run("B26_"+name+"_"+end, func(t *testing.T) {
				server := &tls.Config{Certificates: []tls.Certificate{ca.issue(nil, "a.test")}, MaxVersion: version}
				peer := scripted.Config{TLS: server}.Listen(t, "tls\n<- \"hello\"\n"+end)
				conn, err := net.Dial("tcp", peer.Addr)
				if err != nil {
					t.Fatal(err)
				}
				tconn, err := Client(t.Context(), NewReadAhead(conn, 0), &Config{ServerName: "a.test", RootCAs: ca.pool()})
				if err != nil {
					t.Fatal(err)
				}
				defer tconn.Close()
				got, err := io.ReadAll(tconn)
				switch {
				case end == "close" && (err != nil || string(got) != "hello"):
					t.Errorf("%q, %v", got, err)
				case end == "cut" && (!errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "hello"):
					t.Errorf("%q, %v", got, err)
				case end == "reset" && err == nil:
					t.Errorf("%q", got)
				}
				if _, again := tconn.Read(make([]byte, 1)); again == nil || (err == nil) != (again == io.EOF) {
					t.Errorf("then %v, now %v", err, again)
				}
			})
		}
	}
}

// TestCutBehindTheLastByte has a conn that gives its end together with the last bytes, which may be TLS's goodbye.
func TestCutBehindTheLastByte(t *testing.T) {
	for up, want := range map[bool]error{false: io.EOF, true: cutError{}} {
		g := &guarded{Conn: hasty{reader: iotest.DataErrReader(strings.NewReader("bytes"))}, up: up}
		if got, err := io.ReadAll(io.LimitReader(g, 5)); err != nil || string(got) != "bytes" {
			t.Errorf("%q, %v", got, err)
		}
		if n, err := g.Read(make([]byte, 5)); n != 0 || err != want {
			t.Errorf("%d, %v, want %v", n, err, want)
		}
	}
}

type hasty struct {
	net.Conn
	reader io.Reader
}

func (h hasty) Read(p []byte) (int, error) { return h.reader.Read(p) }
