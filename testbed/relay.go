package testbed

import (
	"context"
	"errors"
	"io"
	"net"
)

// duplex is the client's side of a tunnel.
type duplex interface {
	io.ReadWriter
	CloseWrite() error    // ends our direction; errNoHalfClose: it ends with the tunnel only
	abort(withReset bool) // ends both directions so that neither looks complete
}

// errCut ends a tunnel after as many bytes as it was told to carry.
var errCut = errors.New("testbed: told to cut the tunnel")

// relay copies between the client and the target until both directions have ended, each by itself, or one has failed.
// cut, when above zero, ends the tunnel after so many bytes from the target. It reports whether all went well.
func (p *Proxy) relay(client duplex, target net.Conn, cut int64) (well bool) {
	p.tunnels.Add(1)
	defer p.tunnels.Add(-1)
	stop := context.AfterFunc(p.ctx, func() { target.Close() })
	defer stop()
	up := make(chan error, 1)
	p.running.Go(func() { up <- copyUp(target, client) })
	err := copyDown(client, target, cut)
	if err == nil {
		err = client.CloseWrite()
	}
	if err != nil {
		target.Close()
		client.abort(!errors.Is(err, errCut))
	}
	upErr := <-up
	if errors.Is(err, errNoHalfClose) {
		return true
	}
	return firstError(err, upErr) == nil
}

// copyUp carries the client's bytes to the target. After a failure the target is closed, so that the other direction
// ends too.
func copyUp(target net.Conn, client io.Reader) error {
	err := pump(target, client)
	if err == nil {
		err = closeWrite(target)
	}
	if err != nil {
		target.Close()
	}
	return err
}

// copyDown carries the target's bytes to the client, up to cut when that is above zero.
func copyDown(client io.Writer, target io.Reader, cut int64) error {
	if cut <= 0 {
		return pump(client, target)
	}
	err := pump(client, io.LimitReader(target, cut))
	if err == nil {
		err = errCut
	}
	return err
}

// pump copies through a buffer of its own: each read is passed on before the next.
func pump(w io.Writer, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, 32<<10))
	return err
}
