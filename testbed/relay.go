package testbed

import (
	"context"
	"io"
	"net"
)

// duplex is one side of a tunnel. CloseWrite ends its own direction; an error means that it cannot.
type duplex interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// relay copies between the client and the target until both directions have ended, each by itself, or one has failed.
// cut, when above zero, closes the tunnel after so many bytes from the target. It reports whether all went well.
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
		if err == errNoHalfClose {
			target.Close()
			client.Close()
			<-up
			return true
		}
	}
	if err != nil {
		target.Close()
		client.Close()
	}
	return firstError(err, <-up) == nil
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
		err = io.ErrUnexpectedEOF
	}
	return err
}

// pump copies through a buffer of its own: each read is passed on before the next.
func pump(w io.Writer, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, 32<<10))
	return err
}
