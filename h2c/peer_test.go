package h2c

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is a server of frames, driven by a script.
type peer struct {
	t *testing.T
	net.Conn
	*http2.Framer
	headers bytes.Buffer
	enc     *hpack.Encoder
}

// script gives a Conn over TCP whose peer has sent its SETTINGS and runs f; the peer's end is closed when f
// returns.
func script(t *testing.T, cfg *Config, f func(*peer), settings ...http2.Setting) *Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn := dialTCP(t, ln.Addr().String())
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, cfg, conn, other, f, settings...)
}

func run(t *testing.T, cfg *Config, conn, other net.Conn, f func(*peer), settings ...http2.Setting) *Conn {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer other.Close()
		p := &peer{t: t, Conn: other, Framer: http2.NewFramer(other, other)}
		p.enc = hpack.NewEncoder(&p.headers)
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if _, err := io.ReadFull(other, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		p.WriteSettings(settings...)
		f(p)
	}()
	c, err := New(context.Background(), conn, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// request reads frames up to the head of a request.
func (p *peer) request() *http2.MetaHeadersFrame {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			p.t.Errorf("peer reads: %v", err)
			return &http2.MetaHeadersFrame{HeadersFrame: &http2.HeadersFrame{}}
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			return f
		case *http2.SettingsFrame:
			if !f.IsAck() {
				p.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				p.WritePing(true, f.Data)
			}
		}
	}
}

// drain reads until the connection ends.
func (p *peer) drain() {
	for {
		if _, err := p.ReadFrame(); err != nil {
			return
		}
	}
}

// head sends a header block.
func (p *peer) head(stream uint32, end bool, fields ...string) {
	p.headers.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.headers.Bytes(), EndHeaders: true, EndStream: end})
}

func get(t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://origin.test/a?b=c", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func reserve(t *testing.T, c *Conn) {
	t.Helper()
	if !c.Reserve() {
		t.Fatalf("no slot: %v", c.Err())
	}
}
