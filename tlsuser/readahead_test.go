package tlsuser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

func TestReadAheadIsNetConn(t *testing.T) {
	for name, size := range map[string]int{"size_100": 100, "default": 0, "256_KiB": 256 << 10} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				near, far := dialPair(t)
				conn := NewReadAhead(near, size)
				return conn, far, func() { conn.Close(); far.Close() }, nil
			})
		})
	}
}

// script is a conn that answers each read by the next piece, and remembers what was asked.
type script struct {
	net.Conn
	pieces [][]byte
	errs   []error // with the piece of the same index
	asked  []int
}

func (s *script) Read(p []byte) (int, error) {
	i := len(s.asked)
	s.asked = append(s.asked, len(p))
	if i >= len(s.pieces) {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[i])
	if n < len(s.pieces[i]) {
		panic("a piece is longer than what was asked")
	}
	if i < len(s.errs) {
		return n, s.errs[i]
	}
	return n, nil
}

func TestReadAheadAdapts(t *testing.T) {
	const size = 4096
	tests := map[string]struct {
		pieces []int
		reads  []int // the caller's slices
		asked  []int
		holds  []bool // a buffer, after each read
	}{
		"small_reads_of_a_slow_peer": {
			pieces: []int{10, 10}, reads: []int{512, 512},
			asked: []int{512, 512}, holds: []bool{false, false}},
		"full_read,_then_a_buffer": {
			pieces: []int{512, 1000}, reads: []int{512, 512, 512},
			asked: []int{512, size}, holds: []bool{false, true, false}},
		"a_drained_buffer_that_was_full,_again": {
			pieces: []int{2048, size, 10}, reads: []int{2048, 2048, 2048, 2048},
			asked: []int{2048, size, size}, holds: []bool{false, true, false, false}},
		"a_buffer_that_was_not_full,_then_straight": {
			pieces: []int{512, 100, 10}, reads: []int{512, 512, 512},
			asked: []int{512, size, 512}, holds: []bool{false, false, false}},
		"the_ceiling": {
			pieces: []int{size, size, 1}, reads: []int{64 << 10, 64 << 10, 64 << 10},
			asked: []int{size, size, size}, holds: []bool{false, false, false}},
		"a_slice_of_the_size_needs_no_buffer": {
			pieces: []int{100, size}, reads: []int{100, size},
			asked: []int{100, size}, holds: []bool{false, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := new(script)
			var sent, got []byte
			for i, n := range tt.pieces {
				piece := bytes.Repeat([]byte{byte('a' + i)}, n)
				s.pieces = append(s.pieces, piece)
				sent = append(sent, piece...)
			}
			r := NewReadAhead(s, size)
			for i, n := range tt.reads {
				buf := make([]byte, n)
				n, err := r.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, buf[:n]...)
				if holds := r.buf != nil; holds != tt.holds[i] {
					t.Errorf("after read %d: holds a buffer: %v, want %v", i, holds, tt.holds[i])
				}
			}
			if !slices.Equal(s.asked, tt.asked) {
				t.Errorf("asked %v, want %v", s.asked, tt.asked)
			}
			if !bytes.HasPrefix(sent, got) {
				t.Error("the bytes differ")
			}
		})
	}
}

// TestReadAheadKeepsBytes reads the same with every size of reads; none asks for more than the ceiling.
func TestReadAheadKeepsBytes(t *testing.T) {
	const size, total = 1000, 50_000
	want := make([]byte, total)
	for i := range want {
		want[i] = byte(i * i >> 3)
	}
	for _, ask := range []int{1, 7, 511, 999, 1000, 1001, 65536} {
		t.Run(fmt.Sprintf("B24_reads_of_%d", ask), func(t *testing.T) {
			conn := &segments{data: want}
			got, err := io.ReadAll(sized{NewReadAhead(conn, size), ask})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Error("the bytes differ")
			}
			if conn.most > size {
				t.Errorf("asked for %d bytes", conn.most)
			}
		})
	}
}

// segments gives pieces of changing sizes.
type segments struct {
	net.Conn
	data  []byte
	reads int
	most  int
}

func (s *segments) Read(p []byte) (int, error) {
	s.most = max(s.most, len(p))
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	s.reads++
	n := copy(p[:min(len(p), 1+s.reads*37%1500)], s.data)
	s.data = s.data[n:]
	return n, nil
}

// sized reads with slices of one size.
type sized struct {
	io.Reader
	n int
}

func (s sized) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), s.n)]) }

func TestReadAheadErrors(t *testing.T) {
	broken := errors.New("broken")
	read := func(r io.Reader, n int) (int, error) { return r.Read(make([]byte, n)) }

	t.Run("with_bytes_in_the_buffer", func(t *testing.T) {
		r := NewReadAhead(&script{pieces: [][]byte{make([]byte, 4), make([]byte, 6)}, errs: []error{nil, broken}}, 100)
		read(r, 4)
		for range 2 {
			if n, err := read(r, 3); n != 3 || err != nil {
				t.Fatalf("Read = %d, %v", n, err)
			}
		}
		if n, err := read(r, 3); n != 0 || err != broken {
			t.Errorf("Read = %d, %v", n, err)
		}
	})
	t.Run("a_timeout_comes_bare", func(t *testing.T) {
		near, _ := dialPair(t)
		r := NewReadAhead(near, 0)
		r.SetReadDeadline(time.Unix(1, 0))
		_, err := read(r, 1)
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() || !ne.Temporary() {
			t.Errorf("error = %v (%T)", err, err)
		}
	})
	t.Run("a_deadline_holds_for_buffered_bytes", func(t *testing.T) {
		near, far := dialPair(t)
		far.Write(make([]byte, 10))
		r := NewReadAhead(near, 0)
		io.ReadFull(r, make([]byte, 1))
		if _, err := read(r, 1); err != nil || r.buf == nil {
			t.Fatalf("nothing is buffered: %v", err)
		}
		r.SetReadDeadline(time.Unix(1, 0))
		if n, err := read(r, 1); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %d, %v", n, err)
		}
		for _, later := range []time.Time{time.Now().Add(time.Hour), time.Now().AddDate(500, 0, 0), {}} {
			r.SetDeadline(later)
			if n, err := read(r, 1); n != 1 || err != nil {
				t.Errorf("until %v: Read = %d, %v", later, n, err)
			}
		}
		r.Close()
		if n, err := read(r, 1); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: Read = %d, %v", n, err)
		}
		if r.buf != nil {
			t.Error("holds a buffer after Close")
		}
	})
}

func TestReadAheadHalfClose(t *testing.T) {
	near, far := dialPair(t)
	r := NewReadAhead(near.Conn, 0)
	if r.NetConn() != near.Conn {
		t.Error("NetConn is not the conn beneath")
	}
	if err := r.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(far); len(got) != 0 || err != nil {
		t.Fatalf("the far end reads %q, %v", got, err)
	}
	far.Write([]byte("still"))
	far.Close()
	if got, err := io.ReadAll(r); string(got) != "still" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	pipe, _ := net.Pipe()
	if err := NewReadAhead(pipe, 0).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CloseWrite on a pipe: %v", err)
	}
}
