package caddymodule

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// counted is a TCP conn that counts its reads and writes, but not what the kernel copies.
type counted struct {
	*net.TCPConn
	reads, writes atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.TCPConn.Read(p)
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.TCPConn.Write(p)
}

// TestUpgradedStreamIsCopied copies an upgraded stream as reverse_proxy does. Between two sockets without TLS nothing passes
// through a buffer of this process; elsewhere, and where reads are bounded to less than a buffer, all does.
func TestUpgradedStreamIsCopied(t *testing.T) {
	const cleartext, secure = "h1-cleartext", "h1"
	for name, tt := range map[string]struct {
		way, protocol string
		pull          int
		client        *tls.ConnectionState
		major         int
		byKernel      bool
	}{
		"direct":             {"direct", cleartext, 0, nil, 1, true},
		"http":               {"http", cleartext, 0, nil, 1, true},
		"socks5":             {"socks5", cleartext, 0, nil, 1, true},
		"https":              {"https", cleartext, 0, nil, 1, false},
		"h2":                 {"h2", cleartext, 0, nil, 1, false},
		"TLS_to_the_origin":  {"http", secure, 0, nil, 1, false},
		"TLS_to_the_client":  {"http", cleartext, 0, &tls.ConnectionState{}, 1, false},
		"HTTP2_client":       {"http", cleartext, 0, nil, 2, false},
		"small_reads":        {"http", cleartext, 4 << 10, nil, 1, true},
		"the_largest_reads":  {"http", cleartext, 4 << 20, nil, 1, true},
		"reads_of_one_block": {"direct", cleartext, 32 << 10, nil, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			tr := b.transport(tt.way, tt.protocol)
			tr.PullBytes = tt.pull
			provision(t, tr)
			var socket *counted
			dial := tr.dial
			tr.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if tcp, ok := conn.(*net.TCPConn); ok {
					socket = &counted{TCPConn: tcp}
					conn = socket
				}
				return conn, err
			}
			req := b.request(t, tt.protocol, "/upgrade")
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "sum")
			req.TLS, req.ProtoMajor = tt.client, tt.major
			res, err := tr.RoundTrip(req)
			if err != nil || res.StatusCode != 101 {
				t.Fatalf("%v %v", res, err)
			}
			defer res.Body.Close()
			stream := res.Body.(io.ReadWriteCloser)
			reads, writes := socket.reads.Load(), socket.writes.Load()

			client, far := socketPair(t)
			up := make(chan error)
			go func() { // as switchProtocolCopier does
				_, err := io.CopyBuffer(stream, far, make([]byte, 32<<10))
				if err == nil {
					err = stream.(interface{ CloseWrite() error }).CloseWrite()
				}
				up <- err
			}()
			go func() {
				io.CopyBuffer(far, stream, make([]byte, 32<<10))
				far.CloseWrite()
			}()
			sum := sha256.New()
			if err := testbed.Page(1<<20, io.MultiWriter(client, sum)); err != nil {
				t.Fatal(err)
			}
			client.CloseWrite()
			answer, err := io.ReadAll(client)
			if want := hex.EncodeToString(sum.Sum(nil)); err != nil || !strings.Contains(string(answer), want) {
				t.Errorf("answer %q, %v; want the sum %s", answer, err, want)
			}
			if err := <-up; err != nil && tt.way != "h2" {
				t.Error(err)
			}
			reads, writes = socket.reads.Load()-reads, socket.writes.Load()-writes
			told := fmt.Sprintf("%d reads and %d writes", reads, writes)
			switch {
			case tt.byKernel && writes > 0, tt.byKernel && reads > 0 && tt.pull != 4<<10:
				t.Errorf("%s of the socket, want none", told)
			case !tt.byKernel && (reads == 0 || writes == 0):
				t.Errorf("%s of the socket, want some", told)
			case tt.pull == 4<<10 && reads == 0:
				t.Error("small reads were left to the kernel")
			}
		})
	}
}

func socketPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		other.Close()
	})
	return conn.(*net.TCPConn), other.(*net.TCPConn)
}
