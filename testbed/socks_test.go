package testbed

import (
	"bytes"
	"strings"
	"testing"
)

func TestSOCKSRepliesAndMethods(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	p := newProxy(t, ProxyConfig{Dialect: SOCKS5})
	for _, reply := range []byte{1, 2, 3, 4, 5, 6, 7, 8, 0x5b} {
		p.SetMisbehave(Misbehave{SOCKSReply: reply})
		e := newExchange(t, p)
		e.send("\x05\x02\x00\x02")
		e.expect("\x05\x00")
		e.send(socksTo(t, o.Raw))
		e.expect("\x05" + string([]byte{reply}) + "\x00\x01\x00\x00\x00\x00\x00\x00")
		e.expectEnd()
	}
	for _, c := range []struct {
		m            Misbehave
		send, answer string
	}{
		{Misbehave{}, "\x05\x01\x02", "\x05\xff"},
		{Misbehave{Method: 2}, "\x05\x01\x00", "\x05\x02"},
		{Misbehave{Method: -1}, "\x05\x01\x02", "\x05\x00"},
		{Misbehave{RawMethod: []byte("\x04\x00")}, "\x05\x01\x00", "\x04\x00"},
	} {
		p.SetMisbehave(c.m)
		e := newExchange(t, p)
		e.send(c.send)
		e.expect(c.answer)
	}
	p.SetMisbehave(Misbehave{Method: 2, RawLogin: []byte("\x05\x00")})
	e := newExchange(t, p)
	e.send("\x05\x01\x02")
	e.expect("\x05\x02")
	e.send("\x01\x01u\x01p")
	e.expect("\x05\x00")
	if o.Accepted() != 0 {
		t.Errorf("%d connections to the origin", o.Accepted())
	}
}

func TestSOCKSRequestsThatCannotBe(t *testing.T) {
	p := newProxy(t, ProxyConfig{Dialect: SOCKS5})
	for request, reply := range map[string]string{
		"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50": "\x05\x07",
		"\x05\x01\x00\x02":                         "\x05\x08",
	} {
		e := newExchange(t, p)
		e.send("\x05\x01\x00")
		e.expect("\x05\x00")
		e.send(request)
		e.expect(reply)
	}
}

func TestSOCKSAddressTypes(t *testing.T) {
	p := newProxy(t, ProxyConfig{Dialect: SOCKS5, Allow: func(string) bool { return false }})
	for request, want := range map[string]Request{
		"\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50":                       {Target: "10.0.0.1:80", AddrType: 1},
		"\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x01\xbb": {Target: "[::1]:443", AddrType: 4},
		"\x05\x01\x00\x03\xff" + strings.Repeat("n", 255) + "\x00\x01":   {Target: strings.Repeat("n", 255) + ":1", AddrType: 3},
	} {
		e := newExchange(t, p)
		e.send("\x05\x01\x00")
		e.expect("\x05\x00")
		e.send(request)
		e.expect("\x05\x02")
		seen := p.Seen()
		if got := seen[len(seen)-1]; got.Target != want.Target || got.AddrType != want.AddrType || !bytes.Equal(got.Methods, []byte{0}) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
