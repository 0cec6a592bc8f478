package h1c

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

func upgrade(t *testing.T, c client) stream {
	t.Helper()
	req := get(t, "/")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	reserve(t, c)
	res, err := c.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	u, ok := res.Body.(stream)
	if !ok || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "echo" {
		t.Fatalf("%s %T", res.Status, res.Body)
	}
	return u
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

func TestUpgradeHalfCloses(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		data := bytes.Repeat([]byte("0123456789"), 100<<10)
		c := e.over(t, nil, func(p *peer) {
			p.request()
			p.send(switching + "greeting")
			got, err := io.ReadAll(p.br) // until the half-close
			if err != nil || !bytes.Equal(got, data) {
				p.t.Errorf("peer got %d bytes, %v", len(got), err)
			}
			p.send("farewell")
		})
		u := upgrade(t, c)
		defer u.Close()
		if c.Err() == nil || c.InFlight() != 1 || c.Reserve() {
			t.Error("an upgraded connection takes requests")
		}
		if _, err := u.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := u.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(u); err != nil || string(got) != "greetingfarewell" {
			t.Errorf("%q %v", got, err)
		}
		if err := u.Close(); err != nil || c.InFlight() != 0 {
			t.Errorf("%v, %d in flight", err, c.InFlight())
		}
	})
}

func TestUpgradeWritesConcurrently(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) {
			p.request()
			p.send(switching)
			io.CopyN(p, p.br, 1000*10)
		})
		u := upgrade(t, c)
		defer u.Close()
		for range 10 {
			go func() {
				for range 1000 {
					u.Write([]byte("x"))
				}
			}()
		}
		if n, err := io.Copy(io.Discard, u); err != nil || n != 1000*10 {
			t.Errorf("%d %v", n, err)
		}
	})
}

func TestUpgradeWithoutHalfClose(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		conn, other := net.Pipe()
		c := e.between(t, nil, conn, other, func(p *peer) { p.request(); p.send(switching) })
		u := upgrade(t, c)
		defer u.Close()
		if err := u.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	})
}

func TestUpgradeClosedWhileRead(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) { p.request(); p.send(switching); p.br.ReadByte() })
		u := upgrade(t, c)
		failed := make(chan error)
		go func() {
			_, err := u.Read(make([]byte, 1))
			failed <- err
		}()
		u.Close()
		if err := <-failed; err == nil {
			t.Error("a read of a closed stream gives no error")
		}
	})
}

// A 101 that nobody asked for is no upgrade.
func TestSwitchWithoutProtocol(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.over(t, nil, func(p *peer) { p.request(); p.send("HTTP/1.1 101 Switching Protocols", "", "") })
		reserve(t, c)
		res, err := c.RoundTrip(get(t, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := res.Body.(io.Writer); ok {
			t.Error("it can be written to")
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	})
}
