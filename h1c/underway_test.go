package h1c

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// halfway is a conn whose peer has what a Write gave it and is gone before that Write returns.
type halfway struct {
	net.Conn
	wrote   chan struct{}
	release chan struct{}
}

func (h *halfway) Write(p []byte) (int, error) {
	close(h.wrote)
	<-h.release
	return len(p), nil
}

func (h *halfway) Read([]byte) (int, error) {
	<-h.wrote
	return 0, io.EOF
}

// Close leaves the conn open for a while, as closing TLS does.
func (h *halfway) Close() error { return nil }

func TestWriteUnderWayIsNotUnprocessed(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	release := make(chan struct{})
	conn := &halfway{Conn: near, wrote: make(chan struct{}), release: release}
	c, err := New(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	reserve(t, c)
	req, err := http.NewRequest(http.MethodPost, "http://origin/", bytes.NewReader(make([]byte, 64<<10)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.RoundTrip(req)
	close(release)
	if e, ok := errors.AsType[*Error](err); !ok || e.Unprocessed() {
		t.Errorf("error = %v, which is said to be unprocessed", err)
	}
}

func TestNothingIsWrittenAfterClose(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	defer near.Close()
	conn := &halfway{Conn: near, wrote: make(chan struct{}), release: make(chan struct{})}
	close(conn.release)
	w := &wire{Conn: conn}
	w.Close()
	if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write = %d, %v", n, err)
	}
	select {
	case <-conn.wrote:
		t.Error("it reached the conn")
	default:
	}
}
