package tlsuser

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// authority signs certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	a := &authority{t: t, key: key}
	a.cert = sign(t, template, template, &key.PublicKey, key)
	return a
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate for names, of which IP literals become IP SANs.
func (a *authority) issue(change func(*x509.Certificate), names ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if change != nil {
		change(template)
	}
	key := newKey(a.t)
	cert := sign(a.t, template, a.cert, &key.PublicKey, a.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, pub *ecdsa.PublicKey, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// watched is a conn that remembers whether it was closed.
type watched struct {
	net.Conn
	closed atomic.Bool
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.Conn.Close()
}

// dialPair returns both ends of a loopback TCP connection.
func dialPair(t *testing.T) (near *watched, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		far.Close()
	})
	return &watched{Conn: conn}, far
}

// handshake runs Client against a server with this config, and exchanges a byte each way, so that tickets arrive.
// The server's state is nil if its handshake failed.
func handshake(t *testing.T, cfg *Config, server *tls.Config) (*tls.Conn, *tls.ConnectionState, error) {
	t.Helper()
	near, far := dialPair(t)
	state := make(chan *tls.ConnectionState, 1)
	go serveEcho(far, server, state)
	conn, err := Client(context.Background(), near, cfg)
	if err != nil {
		if !near.closed.Load() {
			t.Error("the conn was left open on error")
		}
		return nil, <-state, err
	}
	if _, err = conn.Write([]byte("x")); err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	return conn, <-state, err
}

func serveEcho(conn net.Conn, cfg *tls.Config, state chan<- *tls.ConnectionState) {
	defer conn.Close()
	tconn := tls.Server(conn, cfg)
	if tconn.Handshake() != nil {
		state <- nil
		return
	}
	cs := tconn.ConnectionState()
	buf := make([]byte, 1)
	if _, err := tconn.Read(buf); err == nil {
		tconn.Write(buf)
	}
	state <- &cs
}
