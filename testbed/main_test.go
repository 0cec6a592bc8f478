package testbed

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func newOrigin(t *testing.T, config OriginConfig) *Origin {
	t.Helper()
	o, err := NewOrigin(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func newProxy(t *testing.T, config ProxyConfig) *Proxy {
	t.Helper()
	p, err := NewProxy(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// mode is a way to ask the origin.
type mode struct {
	name   string
	base   func(*Origin) string
	change func(*http.Transport)
	proto  string
}

func modes() []mode {
	only := func(set func(*http.Protocols)) func(*http.Transport) {
		return func(tr *http.Transport) {
			tr.Protocols = new(http.Protocols)
			set(tr.Protocols)
		}
	}
	h1 := only(func(p *http.Protocols) { p.SetHTTP1(true) })
	h2 := only(func(p *http.Protocols) { p.SetHTTP2(true) })
	h2c := only(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	return []mode{
		{"h1", func(o *Origin) string { return "http://" + o.Plain }, h1, "HTTP/1.1"},
		{"h1tls", func(o *Origin) string { return "https://" + o.TLSH1 }, h1, "HTTP/1.1"},
		{"h2", func(o *Origin) string { return "https://" + o.TLS }, h2, "HTTP/2.0"},
		{"h2c", func(o *Origin) string { return "http://" + o.Plain }, h2c, "HTTP/2.0"},
	}
}

// run runs one test body in every mode, with a client that neither adds nor takes off codings.
func run(t *testing.T, f func(t *testing.T, m mode, c *http.Client, o *Origin)) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			o := newOrigin(t, OriginConfig{})
			f(t, m, newClientOf(t, o, m.change), o)
		})
	}
}

func newClientOf(t *testing.T, o *Origin, change func(*http.Transport)) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.CA()}, DisableCompression: true}
	if change != nil {
		change(tr)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// within is the context of a test that would otherwise hang.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func get(t *testing.T, c *http.Client, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	res, body, err := try(t, c, http.MethodGet, url, nil, header...)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

func try(t *testing.T, c *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return res, got, err
}

func pageBytes(n int64) []byte {
	var b bytes.Buffer
	_ = Page(n, &b) // a buffer takes everything
	return b.Bytes()
}

// dialTCP connects with a deadline for the whole test.
func dialTCP(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	conn, err := connect(t, network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// connect is dialTCP for goroutines, which must not end the test.
func connect(t *testing.T, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(within(t), network, addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(30 * time.Second))
}
