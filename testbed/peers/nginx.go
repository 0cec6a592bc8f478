package peers

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Nginx is an origin over HTTP/1.1, HTTP/2 and h2c. It has:
//
//   - /bytes/{n}: a body of n bytes, the one that [Body] gives, for each n in Sizes
//   - /upload/{name}: PUT stores the body and answers 201 (204 if there was one), GET gives it back
//   - /gzip/{n}: as /bytes/{n}, compressed by nginx if the request accepts gzip
type Nginx struct {
	Sizes []int64
}

func (Nginx) Program() string { return "nginx" }

// A Web is a running [Nginx].
type Web struct {
	*Peer // Addr is TLS

	// TLS serves HTTP/1.1 and HTTP/2 by ALPN, Plain serves HTTP/1.1, and H2C serves HTTP/2 without TLS to clients that know.
	TLS, Plain, H2C string
}

// StartNginx is [Start] for an origin.
func StartNginx(t testing.TB, c Nginx) *Web {
	t.Helper()
	Need(t, c.Program())
	w, err := c.StartWeb()
	if err != nil {
		t.Fatal(err)
	}
	w.stopWith(t)
	return w
}

// Start implements [Kind].
func (c Nginx) Start() (*Peer, error) {
	w, err := c.StartWeb()
	if err != nil {
		return nil, err
	}
	return w.Peer, nil
}

// StartWeb is Start with all of the origin's addresses.
func (c Nginx) StartWeb() (*Web, error) {
	ca, err := NewCA()
	if err != nil {
		return nil, err
	}
	p, s, err := launch("nginx", 3, func(s *setup) ([]string, error) {
		if err := ca.writeServer(s.dir); err != nil {
			return nil, err
		}
		for _, dir := range []string{"www/bytes", "www/upload", "tmp"} {
			if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o700); err != nil {
				return nil, err
			}
		}
		for _, n := range c.Sizes {
			if err := writeBody(filepath.Join(s.dir, "www/bytes", strconv.FormatInt(n, 10)), n); err != nil {
				return nil, err
			}
		}
		conf, err := s.writeConf("nginx.conf", struct{ Dir, TLS, Plain, H2C string }{s.dir, s.addr(0), s.addr(1), s.addr(2)})
		return []string{"-p", s.dir, "-c", conf, "-e", s.dir + "/log"}, err
	})
	if err != nil {
		return nil, err
	}
	p.CA = ca
	return &Web{Peer: p, TLS: s.addr(0), Plain: s.addr(1), H2C: s.addr(2)}, nil
}

// Uploaded opens what was stored by a PUT of /upload/{name}. The caller closes it.
func (w *Web) Uploaded(name string) (*os.File, error) {
	return os.Open(filepath.Join(w.dir, "www/upload", filepath.Base(name)))
}
