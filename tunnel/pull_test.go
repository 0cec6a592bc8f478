package tunnel

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// bottom is a socket that remembers the most that one read asked of it.
type bottom struct {
	net.Conn
	most *atomic.Int64
}

func (b bottom) Read(p []byte) (int, error) {
	if asked := int64(len(p)); asked > b.most.Load() {
		b.most.Store(asked)
	}
	return b.Conn.Read(p)
}

// CloseWrite keeps what a socket can do.
func (b bottom) CloseWrite() error { return closeWrite(b.Conn) }

// The knob must reach the socket of every path: no read asks for more, and a bulk of data is asked for in whole.
func TestPullBytesReachTheSocket(t *testing.T) {
	const bulk = 8 << 20
	target := listen(t, func(conn net.Conn) {
		io.Copy(conn, io.LimitReader(zeros{}, bulk))
		conn.(*net.TCPConn).CloseWrite()
	}).addr
	for _, pull := range []int{4 << 10, 256 << 10} {
		t.Run(strconv.Itoa(pull>>10)+"KiB", func(t *testing.T) {
			ways(t, append([]Dialect{Direct}, proxied...), func(t *testing.T, hops []Hop) {
				var most atomic.Int64
				d := &Dialer{Hops: hops, PullBytes: pull, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, addr)
					return bottom{conn, &most}, err
				}}
				conn, err := d.DialContext(context.Background(), "tcp", target)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 32<<10))
				if n != bulk || err != nil {
					t.Fatalf("read %d bytes, %v", n, err)
				}
				if got := int(most.Load()); got != pull {
					t.Errorf("the most that a read asked for is %d bytes, want %d", got, pull)
				}
			})
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
