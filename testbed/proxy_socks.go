package testbed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
)

// The words of RFC 1928 and RFC 1929.
const (
	socksVersion = 5
	loginVersion = 1

	methodNone  = 0x00
	methodLogin = 0x02
	methodNoone = 0xff

	addrIPv4 = 1
	addrName = 3
	addrIPv6 = 4

	replySucceeded          = 0
	replyFailure            = 1
	replyNotAllowed         = 2
	replyNetworkUnreachable = 3
	replyHostUnreachable    = 4
	replyRefused            = 5
	replyTTLExpired         = 6
	replyCommandUnsupported = 7
	replyAddressUnsupported = 8
)

// serveSOCKS answers one client and carries its tunnel.
func (p *Proxy) serveSOCKS(c *client) {
	m := p.misbehave.Load()
	r := &Request{Proto: "SOCKS5", Method: http.MethodConnect, RemoteAddr: c.RemoteAddr().String()}
	if err := p.negotiateSOCKS(c, m, r); err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			p.fault("SOCKS: %v", err)
		}
		return
	}
	reply, err := readSOCKSRequest(c, r)
	if err != nil {
		p.fault("SOCKS request: %v", err)
		return
	}
	p.record(r)
	c.peer.update(func(peer *Peer) { peer.Requests++ })
	if p.stops(m, AtRequest, c) {
		return
	}
	var target net.Conn
	switch {
	case m.SOCKSReply != 0:
		reply = m.SOCKSReply
	case reply == replySucceeded && !p.allows(r.Target):
		reply = replyNotAllowed
	case reply == replySucceeded:
		if target, err = p.dial(p.ctx, r); err != nil {
			reply = dialReply(err)
		} else {
			defer target.Close()
		}
	}
	p.change(r, func(r *Request) { r.Reply = reply })
	if err := p.finalAnswer(c, m, r, socksReply(reply, target), target); err != nil || m.CloseAfterReply || target == nil {
		return
	}
	p.relay(c, target, m.CutAfter)
}

var (
	errSOCKSVersion = errors.New("not version 5")
	errLoginVersion = errors.New("the login is not version 1")
	errNoMethod     = errors.New("no acceptable method was offered")
	errLogin        = errors.New("the login is wrong")
	errSilence      = errors.New("told to stop")
)

// negotiateSOCKS reads the greeting and the login.
func (p *Proxy) negotiateSOCKS(c *client, m *Misbehave, r *Request) error {
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	if head[0] != socksVersion {
		return errSOCKSVersion
	}
	r.Methods = make([]byte, head[1])
	if _, err := io.ReadFull(c, r.Methods); err != nil {
		return err
	}
	if p.stops(m, AtGreeting, c) {
		return errSilence
	}
	method := byte(methodNone)
	if p.demandsLogin() {
		method = methodLogin
	}
	if !bytes.Contains(r.Methods, []byte{method}) {
		method = methodNoone
	}
	if m.Method > 0 {
		method = byte(m.Method)
	} else if m.Method < 0 {
		method = methodNone
	}
	selection := []byte{socksVersion, method}
	if len(m.RawMethod) > 0 {
		selection = m.RawMethod
	}
	if err := c.say(m, selection); err != nil {
		return err
	}
	switch method {
	case methodNoone:
		return errNoMethod
	case methodLogin:
		return p.login(c, m, r)
	}
	return nil
}

func (p *Proxy) login(c *client, m *Misbehave, r *Request) error {
	version, err := c.ReadByte()
	if err != nil {
		return err
	}
	if version != loginVersion {
		return errLoginVersion
	}
	if r.User, err = readCounted(c); err != nil {
		return err
	}
	if r.Password, err = readCounted(c); err != nil {
		return err
	}
	admitted := !p.demandsLogin() || p.admits(r.User, r.Password)
	answer := []byte{loginVersion, 0}
	if !admitted {
		answer[1] = 1
		p.record(r)
	}
	if len(m.RawLogin) > 0 {
		answer = m.RawLogin
	}
	if err := c.say(m, answer); err != nil {
		return err
	}
	if !admitted {
		return errLogin
	}
	return nil
}

// readCounted reads a string behind its length in one byte.
func readCounted(c *client) (string, error) {
	n, err := c.ReadByte()
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(c, b)
	return string(b), err
}

// readSOCKSRequest reads the request into r. reply says what is wrong with it as such.
func readSOCKSRequest(c *client, r *Request) (reply byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, err
	}
	if head[0] != socksVersion {
		return 0, errSOCKSVersion
	}
	r.AddrType = head[3]
	var host string
	switch head[3] {
	case addrIPv4, addrIPv6:
		b := make([]byte, map[byte]int{addrIPv4: 4, addrIPv6: 16}[head[3]])
		if _, err := io.ReadFull(c, b); err != nil {
			return 0, err
		}
		ip, _ := netip.AddrFromSlice(b) // of either length
		host = ip.String()
	case addrName:
		if host, err = readCounted(c); err != nil {
			return 0, err
		}
	default:
		return replyAddressUnsupported, nil
	}
	var port [2]byte
	if _, err := io.ReadFull(c, port[:]); err != nil {
		return 0, err
	}
	r.Target = net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:]))))
	if head[1] != 1 {
		return replyCommandUnsupported, nil
	}
	return replySucceeded, nil
}

// dialReply is the reply for a target that cannot be reached.
func dialReply(err error) byte {
	var lookup *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return replyRefused
	case errors.Is(err, syscall.ENETUNREACH):
		return replyNetworkUnreachable
	case errors.Is(err, syscall.EHOSTUNREACH), errors.As(err, &lookup):
		return replyHostUnreachable
	case errors.As(err, &timeout) && timeout.Timeout():
		return replyTTLExpired
	}
	return replyFailure
}

// socksReply is a reply with our end of the connection to the target.
func socksReply(reply byte, target net.Conn) []byte {
	bound := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	if target != nil {
		if tcp, ok := target.LocalAddr().(*net.TCPAddr); ok {
			bound = netip.AddrPortFrom(tcp.AddrPort().Addr().Unmap(), tcp.AddrPort().Port())
		}
	}
	kind := byte(addrIPv4)
	if bound.Addr().Is6() {
		kind = addrIPv6
	}
	answer := append([]byte{socksVersion, reply, 0, kind}, bound.Addr().AsSlice()...)
	return binary.BigEndian.AppendUint16(answer, bound.Port())
}
