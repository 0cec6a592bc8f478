package testbed

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// Saw is what the origin saw of a request; /headers answers it as JSON.
type Saw struct {
	Method      string      `json:"method"`
	URI         string      `json:"uri"`
	Host        string      `json:"host"`
	Proto       string      `json:"proto"` // as in HTTP/1.1
	Header      http.Header `json:"header"`
	RemoteAddr  string      `json:"remote_addr"`
	Listener    string      `json:"listener"`           // as in Peer
	ProxyHeader string      `json:"proxy_header"`       // as in Peer
	ServerName  string      `json:"server_name"`        // SNI; empty: none or no TLS
	ALPN        string      `json:"alpn"`               // chosen
	TLS         bool        `json:"tls"`                // over TLS
	Resumed     bool        `json:"resumed"`            // the TLS session was
	ClientCert  string      `json:"client_cert"`        // subject of the client's certificate; empty: none
	Length      int64       `json:"length"`             // declared for the body; -1: unknown
	Encoding    []string    `json:"encoding,omitempty"` // transfer codings of the body
}

type peerKey struct{}

// withPeer is a http.Server.ConnContext that lets handlers find the peer.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if p := peerOf(conn); p != nil {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}

// recordHello is a tls.Config.GetConfigForClient that records and changes nothing.
func recordHello(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if p := peerOf(hello.Conn); p != nil {
		p.hello(hello)
	}
	return nil, nil
}

// see returns what there is to see of a request and its peer.
func see(r *http.Request) Saw {
	saw := Saw{
		Method: r.Method, URI: r.RequestURI, Host: r.Host, Proto: r.Proto, Header: r.Header,
		RemoteAddr: r.RemoteAddr, Length: r.ContentLength, Encoding: r.TransferEncoding,
	}
	if r.TLS != nil {
		saw.TLS = true
		saw.ServerName, saw.ALPN, saw.Resumed = r.TLS.ServerName, r.TLS.NegotiatedProtocol, r.TLS.DidResume
		if len(r.TLS.PeerCertificates) > 0 {
			saw.ClientCert = r.TLS.PeerCertificates[0].Subject.String()
		}
	}
	if p := requestPeer(r); p != nil {
		p.update(func(peer *Peer) { saw.Listener, saw.ProxyHeader = peer.Listener, peer.ProxyHeader })
	}
	return saw
}

// requestPeer returns the peer that sent the request; nil: its connection is not recorded.
func requestPeer(r *http.Request) *peer {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	return p
}

// countRequest records that the peer sent the request, and with it that TLS is complete.
func countRequest(r *http.Request) {
	p := requestPeer(r)
	if p == nil {
		return
	}
	if r.TLS != nil {
		p.handshake(*r.TLS)
	}
	p.update(func(peer *Peer) { peer.Requests++ })
}
