package tlsuser

import (
	"crypto/tls"
	"testing"
)

func TestSessionsAreScopedByTheCache(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	server := &tls.Config{Certificates: []tls.Certificate{ca.issue(nil, "a.test")}}
	for name, cfg := range map[string]Config{"T08_server_name": {ServerName: "a.test"}, "T08_verify_name": {ServerName: "b.test", VerifyName: "a.test"}} {
		t.Run(name, func(t *testing.T) {
			cfg.RootCAs = ca.pool()
			resumes := func(cache tls.ClientSessionCache) bool {
				cfg.Sessions = cache
				conn, _, err := handshake(t, &cfg, server)
				wantCode(t, err, "")
				return conn.ConnectionState().DidResume
			}
			mine := tls.NewLRUClientSessionCache(0)
			if resumes(mine) {
				t.Error("resumed without a ticket")
			}
			if !resumes(mine) {
				t.Error("not resumed with a ticket")
			}
			if resumes(tls.NewLRUClientSessionCache(0)) {
				t.Error("resumed with the ticket of another cache")
			}
			if resumes(nil) {
				t.Error("resumed without a cache")
			}
		})
	}
}

// A ticket must not stand in for a verification that would fail now.
func TestResumedSessionIsVerified(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	for name, version := range map[string]uint16{"T08_TLS_1.2": tls.VersionTLS12, "T08_TLS_1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			server := &tls.Config{Certificates: []tls.Certificate{ca.issue(nil, "a.test")}, MaxVersion: version}
			good := Config{ServerName: "front.test", VerifyName: "a.test", RootCAs: ca.pool(), Sessions: tls.NewLRUClientSessionCache(0)}
			_, _, err := handshake(t, &good, server)
			wantCode(t, err, "")

			renamed := good
			renamed.VerifyName = "b.test"
			_, _, err = handshake(t, &renamed, server)
			wantCode(t, err, CertNameMismatch)

			_, _, err = handshake(t, &good, server)
			wantCode(t, err, "")
			distrusting := good
			distrusting.RootCAs = newAuthority(t, "Other CA").pool()
			_, _, err = handshake(t, &distrusting, server)
			wantCode(t, err, CertUntrusted)
		})
	}
}
