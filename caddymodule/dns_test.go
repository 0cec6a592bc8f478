package caddymodule

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// startDNS serves names below .test as 127.0.0.1 and denies all others. It returns its address.
func startDNS(t *testing.T) string {
	t.Helper()
	addr, _ := watchDNS(t)
	return addr
}

// watchDNS is startDNS with a count of the questions asked so far. Services _p<port>._tcp below .test are at that port of origin.test.
func watchDNS(t *testing.T) (addr string, asked func() int64) {
	t.Helper()
	var questions atomic.Int64
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, peer, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			questions.Add(1)
			if reply, err := answerDNS(buf[:n]); err == nil {
				conn.WriteTo(reply, peer)
			}
		}
	}()
	return conn.LocalAddr().String(), questions.Load
}

// everyLookup is the server that is asked for what this process looks up by no resolver of its own; nil: the system's.
var everyLookup atomic.Pointer[string]

func init() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if server := everyLookup.Load(); server != nil {
			network, addr = "udp", *server
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
}

// watchEveryLookup is watchDNS of whatever this process looks up.
func watchEveryLookup(t *testing.T) (addr string, asked func() int64) {
	t.Helper()
	addr, asked = watchDNS(t)
	everyLookup.Store(&addr)
	t.Cleanup(func() { everyLookup.Store(nil) })
	return addr, asked
}

func answerDNS(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable = true, true
	m.Additionals = nil
	q := m.Questions[0]
	switch {
	case !strings.HasSuffix(q.Name.String(), ".test."):
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeSRV:
		port, _ := strconv.ParseUint(strings.TrimPrefix(strings.Split(q.Name.String(), ".")[0], "_p"), 10, 16)
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.SRVResource{Target: dnsmessage.MustNewName("origin.test."), Port: uint16(port)},
		}}
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	return m.Pack()
}
