package h1c

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// kind is a kind of conn that a Conn is made over.
type kind struct {
	name string
	make func(testing.TB) (near, far net.Conn)
}

var kinds = []kind{
	{"tcp", tcp},
	{"tcp_ahead", func(t testing.TB) (net.Conn, net.Conn) {
		near, far := tcp(t)
		return tlsuser.NewReadAhead(near, 0), far
	}},
	{"tls", func(t testing.TB) (net.Conn, net.Conn) { return tlsOver(t, tls.VersionTLS13, plainConn) }},
	{"tls_ahead", func(t testing.TB) (net.Conn, net.Conn) { return tlsOver(t, tls.VersionTLS13, ahead) }},
	{"tlsuser", func(t testing.TB) (net.Conn, net.Conn) {
		near, far := tcp(t)
		return tlsUser(t, ahead(near), far)
	}},
	{"tlsuser_in_tlsuser", func(t testing.TB) (net.Conn, net.Conn) {
		near, far := tcp(t)
		near, far = tlsUser(t, ahead(near), far)
		return tlsUser(t, near, far)
	}},
	{"tls12_ahead", func(t testing.TB) (net.Conn, net.Conn) { return tlsOver(t, tls.VersionTLS12, ahead) }},
	{"tls_in_tls_ahead", func(t testing.TB) (net.Conn, net.Conn) {
		near, far := tlsOver(t, tls.VersionTLS13, ahead)
		return secure(t, &tls.Config{}, near, far)
	}},
}

func plainConn(conn net.Conn) net.Conn { return conn }

func ahead(conn net.Conn) net.Conn { return tlsuser.NewReadAhead(conn, 0) }

func tlsOver(t testing.TB, version uint16, beneath func(net.Conn) net.Conn) (near, far net.Conn) {
	t.Helper()
	near, far = tcp(t)
	return secure(t, &tls.Config{MaxVersion: version}, beneath(near), far)
}

// secure does TLS over a connection.
func secure(t testing.TB, server *tls.Config, near, far net.Conn) (*tls.Conn, *tls.Conn) {
	t.Helper()
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1)})
	return client, shake(t, server, far, client.Handshake)
}

// shake does both sides of a handshake.
func shake(t testing.TB, server *tls.Config, far net.Conn, near func() error) *tls.Conn {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"origin.test"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	server.Certificates = []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}
	inside := tls.Server(far, server)
	shaken := make(chan error, 1)
	go func() { shaken <- inside.Handshake() }()
	if err := errors.Join(near(), <-shaken); err != nil {
		t.Fatal(err)
	}
	return inside
}

// tlsUser does TLS as the product does it.
func tlsUser(t testing.TB, near, far net.Conn) (client, server net.Conn) {
	t.Helper()
	server = shake(t, &tls.Config{}, far, func() (err error) {
		client, err = tlsuser.Client(t.Context(), near, &tlsuser.Config{InsecureSkipVerify: true})
		return err
	})
	return client, server
}

func eachKind(t *testing.T, f func(*testing.T, kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}

// P06: a connection that its peer has closed, or that holds bytes of no response, has no slot; nothing is sent on it.
func TestP06IdleConnections(t *testing.T) {
	for name, test := range map[string]struct {
		after func(net.Conn) // what the peer does after its first response
		dead  bool
	}{
		"quiet":    {func(net.Conn) {}, false},
		"closed":   {func(conn net.Conn) { conn.Close() }, true},
		"half":     {func(conn net.Conn) { conn.(interface{ CloseWrite() error }).CloseWrite() }, true},
		"answered": {func(conn net.Conn) { io.WriteString(conn, ok11+"Content-Length: 0\r\n\r\n") }, true},
		"timeout":  {func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 408 Request Timeout\r\n\r\n"); conn.Close() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, k kind) {
				near, far := k.make(t)
				done, next := make(chan struct{}), make(chan struct{})
				c := own.between(t, nil, near, far, func(p *peer) {
					p.request()
					p.send(ok11 + "Content-Length: 2\r\n\r\nok")
					test.after(far)
					close(done)
					if <-next; !test.dead {
						p.request()
						p.send(ok11 + "Content-Length: 2\r\n\r\nok")
						io.Copy(io.Discard, p.br)
					}
				})
				text(t, do(t, c, get(t, "/")))
				<-done
				told := make(chan struct{}, 8)
				c.Notify(func() { told <- struct{}{} })
				for test.dead && c.Reserve() { // until it has arrived
					c.Release()
					<-told
				}
				close(next)
				if test.dead {
					<-told
				} else {
					text(t, do(t, c, get(t, "/")))
				}
				if dead := c.Err() != nil; dead != test.dead {
					t.Errorf("dead: %v", dead)
				}
			})
		})
	}
}

// More than the response has, in the same segment, however the body is read.
func TestSurplus(t *testing.T) {
	for name, reply := range map[string]string{
		"after_length":  ok11 + "Content-Length: 5\r\n\r\nhello" + ok11 + "Content-Length: 3\r\n\r\nbad",
		"after_chunks":  ok11 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + ok11,
		"after_nothing": ok11 + "Content-Length: 0\r\n\r\n" + ok11 + "Content-Length: 3\r\n\r\nbad",
		"one_byte":      ok11 + "Content-Length: 9000\r\n\r\n" + strings.Repeat("x", 9000) + "H",
		"after_204":     "HTTP/1.1 204 No Content\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, k kind) {
				for _, size := range []int{1, 5, 4904, 9000, 32 << 10} {
					near, far := k.make(t)
					c := own.between(t, nil, near, far, func(p *peer) {
						p.request()
						p.send(reply)
						io.Copy(io.Discard, p.br)
					})
					res := do(t, c, get(t, "/"))
					buf := make([]byte, size)
					for err := error(nil); err == nil; {
						_, err = res.Body.Read(buf)
					}
					if c.Reserve() {
						t.Errorf("with reads of %d bytes: a slot", size)
					}
					c.Close()
				}
			})
		})
	}
}

// Session tickets that come late are no reason to give a connection up, where they can be told from data.
func TestTicketsWhileIdle(t *testing.T) {
	near, far := tcp(t)
	client, server := secure(t, &tls.Config{ClientAuth: tls.RequestClientCert}, ahead(near), far) // tickets come last
	c := own.between(t, nil, client, server, func(p *peer) {
		for range 2 {
			p.request()
			p.send(ok11 + "Content-Length: 0\r\n\r\n")
		}
	})
	reserve(t, c)
	c.Release()                         // from the first use on it is looked at
	for readable := false; !readable; { // the tickets have arrived
		var err error
		if readable, err = peek(c.(*Conn).idle.socket); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		text(t, do(t, c, get(t, "/")))
	}
}

func TestStreamsAreNotHeldBack(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		near, far := k.make(t)
		step := make(chan struct{})
		c := own.between(t, nil, near, far, func(p *peer) {
			p.request()
			p.send(ok11 + "Transfer-Encoding: chunked\r\n\r\n")
			for range 3 {
				<-step
				p.send("5\r\nevent\r\n")
			}
			<-step
			p.send("0\r\n")
			<-step
			p.send("\r\n")
		})
		res := do(t, c, get(t, "/"))
		buf := make([]byte, 32<<10)
		for range 3 {
			step <- struct{}{}
			if n, err := res.Body.Read(buf); string(buf[:n]) != "event" || err != nil {
				t.Fatalf("%q, %v", buf[:n], err)
			}
		}
		go func() { step <- struct{}{}; step <- struct{}{} }()
		if n, err := res.Body.Read(buf); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// An idle connection holds no buffer and has no goroutine.
func TestIdleHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c, _ := New(near, nil)
		go func() {
			io.ReadFull(far, make([]byte, len("GET / HTTP/1.1\r\nHost: origin.test\r\n\r\n")))
			io.WriteString(far, ok11+"Content-Length: 2\r\n\r\nok")
		}()
		res := do(t, c, get(t, "/"))
		if c.in.buf == nil {
			t.Error("no buffer while a body is open")
		}
		text(t, res)
		if c.in.buf != nil || c.in.lent != nil || c.x != nil {
			t.Error("it holds something")
		}
		c.Close()
		far.Close()
	})
}

func TestCloseWhileReading(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		c := e.answering(t, ok11+"Content-Length: 10\r\n\r\n12345")
		res := do(t, c, get(t, "/"))
		io.ReadFull(res.Body, make([]byte, 5))
		failed := make(chan error)
		go func() {
			_, err := res.Body.Read(make([]byte, 5))
			failed <- err
		}()
		res.Body.Close()
		if err := <-failed; err == nil || err == io.EOF {
			t.Error(err)
		}
		if _, err := res.Body.Read(make([]byte, 5)); err == nil || err == io.EOF {
			t.Error(err)
		}
		if c.Err() == nil {
			t.Error("the connection is usable")
		}
	})
}
