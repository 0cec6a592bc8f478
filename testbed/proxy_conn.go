package testbed

import (
	"bufio"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// acceptAll accepts clients until the listener closes.
func (p *Proxy) acceptAll() {
	acceptEach(p.ctx, p.listener, func(conn net.Conn) {
		if peer, ok := p.ledger.accept(conn, string(p.Dialect)); ok {
			p.running.Go(func() { p.serve(&recordedConn{conn, peer}) })
		}
	})
}

// serve serves one client connection and closes it, unless it hands it to the HTTP/2 front.
func (p *Proxy) serve(conn *recordedConn) {
	handed := false
	defer func() {
		if !handed {
			conn.Close()
		}
	}()
	m := p.misbehave.Load()
	if len(m.Garbage) > 0 {
		if _, err := conn.Write(m.Garbage); err == nil {
			hold(conn)
		}
		return
	}
	if p.stops(m, AtAccept, conn) {
		return
	}
	if p.Dialect == SOCKS5 {
		p.serveSOCKS(newClient(conn, conn.peer))
		return
	}
	if p.tls == nil {
		if !p.stops(m, AtGreeting, conn) {
			p.serveHTTP1(newClient(conn, conn.peer))
		}
		return
	}
	secure := tls.Server(conn, p.tls)
	if err := secure.HandshakeContext(p.ctx); err != nil {
		p.fault("TLS: %v", err)
		return
	}
	conn.peer.handshake(secure.ConnectionState())
	if p.stops(m, AtGreeting, secure) {
		return
	}
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		handed = p.h2.take(secure)
		return
	}
	if p.Dialect == H2 {
		p.fault("TLS: the client did not offer h2")
		return
	}
	defer secure.Close()
	p.serveHTTP1(newClient(secure, conn.peer))
}

// stops reports whether the exchange ends at this moment, after it has been silent for as long as the client waits.
func (p *Proxy) stops(m *Misbehave, at Moment, conn net.Conn) bool {
	if m.Silent == at {
		hold(conn)
		return true
	}
	return m.Close == at
}

// hold reads until the client, or the proxy, closes.
func hold(r io.Reader) {
	_, _ = io.Copy(io.Discard, r)
}

// client is a client connection with its buffered reader.
type client struct {
	net.Conn
	*bufio.Reader
	peer *peer
}

func newClient(conn net.Conn, peer *peer) *client {
	return &client{Conn: conn, Reader: bufio.NewReader(conn), peer: peer}
}

// Read reads what is buffered first.
func (c *client) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// CloseWrite ends our direction only.
func (c *client) CloseWrite() error { return closeWrite(c.Conn) }

// abort closes the connection without TLS's goodbye, with or without a reset.
func (c *client) abort(withReset bool) {
	if withReset {
		reset(c.Conn)
	} else {
		beneathTLS(c.Conn).Close()
	}
}

// say writes an answer, byte by byte if that is asked for.
func (c *client) say(m *Misbehave, answer []byte) error {
	if !m.Dribble {
		_, err := c.Write(answer)
		return err
	}
	for i := range answer {
		if _, err := c.Write(answer[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for d, or for the client to go, and reports whether bytes of the tunnel came in before.
func (c *client) wait(d time.Duration) (early bool, err error) {
	if d <= 0 {
		return c.Buffered() > 0, nil
	}
	until := time.Now().Add(d)
	if err := c.SetReadDeadline(until); err != nil {
		return false, err
	}
	_, err = c.Peek(1)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		err = nil
	case err == nil:
		early = true
		timer := time.NewTimer(time.Until(until))
		<-timer.C
	}
	return early, firstError(err, c.SetReadDeadline(time.Time{}))
}

// finalAnswer writes the answer to a request that opens the tunnel or does not: delayed, with its last byte held back,
// and with the target's first bytes in the same write, as m says. target is nil where there is none.
func (p *Proxy) finalAnswer(c *client, m *Misbehave, r *Request, answer []byte, target net.Conn) error {
	early, err := c.wait(m.Delay)
	p.change(r, func(r *Request) { r.Early = early })
	if err != nil {
		return err
	}
	if target != nil && len(m.RawReply) > 0 {
		answer = m.RawReply
	}
	if target != nil && m.Coalesce {
		first := make([]byte, 4<<10)
		if err := target.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		n, _ := target.Read(first) // an end or a failure shows again in the tunnel
		if err := target.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		answer = append(slices.Clip(answer), first[:n]...)
	}
	if m.HoldLast > 0 {
		last := len(answer) - 1
		if err := c.say(m, answer[:last]); err != nil {
			return err
		}
		if _, err := c.wait(m.HoldLast); err != nil {
			return err
		}
		answer = answer[last:]
	}
	return c.say(m, answer)
}

// admits reports whether this login is the one that is demanded.
func (p *Proxy) admits(user, password string) bool {
	sameUser := subtle.ConstantTimeCompare([]byte(user), []byte(p.config.Username))
	samePassword := subtle.ConstantTimeCompare([]byte(password), []byte(p.config.Password))
	return sameUser&samePassword == 1
}

// demandsLogin reports whether clients have to log in.
func (p *Proxy) demandsLogin() bool { return p.config.Username != "" || p.config.Password != "" }

// allows reports whether the target may be reached.
func (p *Proxy) allows(target string) bool { return p.config.Allow == nil || p.config.Allow(target) }
