package testbed

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// serveHTTP1 answers requests until one opened a tunnel that has ended, or the client goes.
func (p *Proxy) serveHTTP1(c *client) {
	for p.answerHTTP1(c) {
	}
}

// answerHTTP1 answers one request and reports whether the connection may carry another.
func (p *Proxy) answerHTTP1(c *client) (again bool) {
	req, err := http.ReadRequest(c.Reader)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			p.fault("HTTP: %v", err)
			_ = c.say(new(Misbehave), replyHead(http.StatusBadRequest, nil, "")) // the client may have gone
		}
		return false
	}
	m := p.misbehave.Load()
	req.RemoteAddr = c.RemoteAddr().String()
	r := httpRequest(req)
	p.record(r)
	c.peer.update(func(peer *Peer) { peer.Requests++ })
	if p.stops(m, AtRequest, c) {
		return false
	}
	if m.Flood != "" {
		p.flood(c, m.Flood)
		return false
	}
	status, header, body := p.judge(m, r)
	var target net.Conn
	if status/100 == 2 {
		if target, err = p.dial(p.ctx, r); err != nil {
			status, body = dialStatus(err), err.Error()
		} else {
			defer target.Close()
		}
	}
	p.change(r, func(r *Request) { r.Status = status })
	if err := p.finalAnswer(c, m, r, replyHead(status, header, body), target); err != nil || m.CloseAfterReply {
		return false
	}
	if target != nil {
		p.relay(c, target, m.CutAfter)
		return false
	}
	return r.Method == http.MethodConnect && !req.Close
}

// httpRequest is what there is to see of an HTTP request.
func httpRequest(req *http.Request) *Request {
	r := &Request{
		Proto: req.Proto, Method: req.Method, Target: req.RequestURI, Host: req.Host,
		Header: req.Header, RemoteAddr: req.RemoteAddr,
	}
	if req.Method == http.MethodConnect {
		r.Target = req.Host
		if req.ProtoMajor == 1 {
			r.Target = req.RequestURI
		}
	}
	login, ok := strings.CutPrefix(req.Header.Get("Proxy-Authorization"), "Basic ")
	if decoded, err := base64.StdEncoding.DecodeString(login); ok && err == nil {
		r.User, r.Password, _ = strings.Cut(string(decoded), ":")
	}
	return r
}

// judge decides how a request is answered if its target can be reached.
func (p *Proxy) judge(m *Misbehave, r *Request) (status int, header http.Header, body string) {
	header = http.Header{}
	maps.Copy(header, m.Header)
	switch {
	case m.Status != 0:
		status, body = m.Status, m.Body
	case r.Method != http.MethodConnect:
		status, body = http.StatusMethodNotAllowed, "this proxy does CONNECT only\n"
	case p.demandsLogin() && !p.admits(r.User, r.Password):
		status, body = http.StatusProxyAuthRequired, "log in\n"
	case !p.allows(r.Target):
		status, body = http.StatusForbidden, "not allowed\n"
	default:
		status = http.StatusOK
	}
	if status == http.StatusProxyAuthRequired && header.Get("Proxy-Authenticate") == "" {
		header.Set("Proxy-Authenticate", `Basic realm="testbed"`)
	}
	return status, header, body
}

// dialStatus is the status for a target that cannot be reached.
func dialStatus(err error) int {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// replyHead is an answer to CONNECT, whole.
func replyHead(status int, header http.Header, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", status, defaulted(http.StatusText(status), "Status"))
	_ = header.Write(&b) // a buffer takes everything
	if status/100 != 2 && status/100 != 1 {
		b.WriteString("Content-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n")
	if status/100 != 2 {
		b.WriteString(body)
	}
	return b.Bytes()
}

// flood writes an endless head until the client or the proxy closes.
func (p *Proxy) flood(c *client, kind Flood) {
	first, rest := "HTTP/1.1 200 OK\r\n", "X-Filler: "+strings.Repeat("x", 1000)+"\r\n"
	switch kind {
	case FloodField:
		first, rest = first+"X-Filler: ", strings.Repeat("x", 1000)
	case FloodInterim:
		first, rest = "", "HTTP/1.1 102 Processing\r\nX-Filler: "+strings.Repeat("x", 100)+"\r\n\r\n"
	}
	_, err := io.WriteString(c.Conn, first)
	for err == nil {
		_, err = io.WriteString(c.Conn, rest)
	}
}
