package tlsuser

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
)

// gatherable tells that a Read found nothing in memory.
func gatherable(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Temporary() && !ne.Timeout()
}

func TestGather(t *testing.T) {
	broken := errors.New("broken")
	s := &script{pieces: [][]byte{[]byte("abcd"), []byte("efghij"), []byte("k")}, errs: []error{nil, broken, nil}}
	r := NewReadAhead(s, 100)
	buf := make([]byte, 4)
	r.Gather(true)
	if n, err := r.Read(buf); n != 0 || !gatherable(err) || len(s.asked) != 0 {
		t.Fatalf("with nothing buffered: %d, %v, asked %v", n, err, s.asked)
	}
	r.Gather(false)
	r.Read(buf)
	r.Read(buf)
	r.Gather(true)
	if n, err := r.Read(buf); string(buf[:n]) != "ij" || err != nil {
		t.Errorf("what is buffered: %q, %v", buf[:n], err)
	}
	if n, err := r.Read(buf); n != 0 || err != broken {
		t.Errorf("an error that came with it: %d, %v", n, err)
	}
	if n, err := r.Read(buf); n != 0 || !gatherable(err) {
		t.Errorf("afterwards: %d, %v", n, err)
	}
	r.Gather(false)
	if n, err := r.Read(buf); string(buf[:n]) != "k" || err != nil {
		t.Errorf("off again: %q, %v", buf[:n], err)
	}
}

func TestFill(t *testing.T) {
	s := &script{pieces: [][]byte{[]byte("abc"), nil}}
	r := NewReadAhead(s, 100)
	for range 2 {
		if err := r.Fill(); err != nil || len(s.asked) != 1 || s.asked[0] != 100 {
			t.Fatalf("%v, asked %v", err, s.asked)
		}
	}
	r.Gather(true)
	buf := make([]byte, 10)
	if n, err := r.Read(buf); string(buf[:n]) != "abc" || err != nil {
		t.Errorf("%q, %v", buf[:n], err)
	}
	s.asked = make([]int, 2) // the script is at its end
	if err := r.Fill(); err != io.EOF || r.buf != nil {
		t.Errorf("%v, holds a buffer: %v", err, r.buf != nil)
	}
}

// Records are gathered through crypto/tls, whatever lies between them, and it goes on where it was left.
func TestGatherThroughTLS(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			near, far := dialPair(t)
			ca := newAuthority(t, "CA")
			ahead := NewReadAhead(&cuts{Conn: near}, 0)
			server := tls.Server(far, &tls.Config{
				Certificates: []tls.Certificate{ca.issue(nil, "origin.test")}, MaxVersion: version})
			client := tls.Client(ahead, &tls.Config{RootCAs: ca.pool(), ServerName: "origin.test"})
			go server.Handshake()
			if err := client.Handshake(); err != nil {
				t.Fatal(err)
			}
			sent := bytes.Repeat([]byte("0123456789abcdef"), 8<<10) // some records
			go server.Write(sent)

			var got []byte
			buf := make([]byte, 32<<10)
			for waits := 0; len(got) < len(sent); {
				ahead.Gather(waits%2 == 0)
				n, err := client.Read(buf)
				got = append(got, buf[:n]...)
				switch {
				case err == nil:
				case gatherable(err) && waits%2 == 0:
					waits++
					continue
				default:
					t.Fatalf("after %d bytes: %v", len(got), err)
				}
				if waits%2 == 1 {
					waits++
				}
			}
			if !bytes.Equal(got, sent) {
				t.Error("the bytes differ")
			}
			ahead.Gather(true)
			if n, err := client.Read(buf); n != 0 || !gatherable(err) {
				t.Errorf("at the end: %d, %v", n, err)
			}
		})
	}
}

// cuts reads odd pieces, so that buffers end within records.
type cuts struct{ net.Conn }

func (c *cuts) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(len(p), 10_007)]) }
