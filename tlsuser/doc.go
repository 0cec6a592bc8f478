// Package tlsuser is the client side of TLS over any net.Conn, and the read ceiling beneath it.
//
// Typical use:
//
//	conn = tlsuser.NewReadAhead(conn, 64<<10) // at the bottom, on the socket
//	tconn, err := tlsuser.Client(ctx, conn, &tlsuser.Config{ServerName: "api.example.com"})
//	var failed *tlsuser.Error
//	if errors.As(err, &failed) && failed.Code == tlsuser.CertExpired { ... }
//
// The name sent (SNI) and the name verified may differ. Every failure of a handshake is an [*Error] with a stable
// code, and the connection is closed.
//
// crypto/tls does the protocol; this package chooses what it is asked to do. It does not dial, load files, watch
// them, hold session tickets (the caller scopes a cache to one identity and one leg) or speak the server's side.
//
// The protocol is RFC 8446 (TLS 1.3) and RFC 5246 (TLS 1.2), names are verified after RFC 6125, the name sent is
// that of RFC 6066 section 3, ALPN is RFC 7301.
package tlsuser
