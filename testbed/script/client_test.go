package script

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// newHTTP2 returns a client that speaks HTTP/2 on conn by prior knowledge.
func newHTTP2(t *testing.T, conn net.Conn) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:   &protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
