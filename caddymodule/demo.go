package caddymodule

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A demo is the origin and the proxies that the example's routes lead through, and the page that lists them.
type demo struct {
	dir     string
	origin  *testbed.Origin
	proxies map[string]*testbed.Proxy // by dialect
	page    *http.Server
	env     map[string]string
	url     string
}

// runDemo serves the example until ctx ends or the process is interrupted; with check it runs the routes instead.
func runDemo(ctx context.Context, example string, check bool, out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{proxies: make(map[string]*testbed.Proxy), env: make(map[string]string)}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.start(check); err != nil {
		return err
	}
	if err := d.serve(example, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, caddy.Stop()) }()
	if check {
		return d.check(ctx, out)
	}
	fmt.Fprintf(out, "\nThe examples are at %s/ - end with Ctrl-C\n\n", d.url)
	<-ctx.Done()
	return nil
}

// start opens the origin, the proxies and the page.
func (d *demo) start(check bool) error {
	var err error
	if d.dir, err = os.MkdirTemp("", "caddy-tunnel-demo-"); err != nil {
		return err
	}
	if d.origin, err = testbed.NewOrigin(testbed.OriginConfig{}); err != nil {
		return err
	}
	originCA, err := d.origin.CAFile(d.dir)
	if err != nil {
		return err
	}
	d.setenv("DEMO_ORIGIN_CA", originCA)
	d.setenv("DEMO_ORIGIN_TLS", localhost(d.origin.TLS))
	d.setenv("DEMO_ORIGIN_PLAIN", localhost(d.origin.Plain))
	d.setenv("DEMO_USER", "svc")
	d.setenv("DEMO_PASSWORD", rand.Text())
	if err := d.startProxies(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.setenv("DEMO_PAGE", localhost(l.Addr().String()))
	d.page = &http.Server{Handler: http.HandlerFunc(demoPage), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = d.page.Serve(l) }() // ends with close
	if check {
		for _, name := range []string{"DEMO_PORT", "DEMO_ADMIN_PORT"} {
			port, err := freePort()
			if err != nil {
				return err
			}
			d.setenv(name, port)
		}
	}
	d.url = "http://localhost:" + cmp.Or(d.env["DEMO_PORT"], os.Getenv("DEMO_PORT"), "8080")
	return nil
}

func (d *demo) startProxies() error {
	authority, err := testbed.NewAuthority("demo proxies")
	if err != nil {
		return err
	}
	dir := filepath.Join(d.dir, "proxies")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	ca, err := authority.WriteFile(dir)
	if err != nil {
		return err
	}
	d.setenv("DEMO_PROXY_CA", ca)
	for _, p := range []struct {
		env   string
		login bool
		cfg   testbed.ProxyConfig
	}{
		{"DEMO_PROXY_HTTP", false, testbed.ProxyConfig{Dialect: testbed.HTTP}},
		{"DEMO_PROXY_HTTPS", true, testbed.ProxyConfig{Dialect: testbed.HTTPS}},
		{"DEMO_PROXY_SOCKS5", true, testbed.ProxyConfig{Dialect: testbed.SOCKS5}},
		{"DEMO_PROXY_H2", false, testbed.ProxyConfig{Dialect: testbed.H2}},
	} {
		p.cfg.Authority = authority
		if p.login {
			p.cfg.Username, p.cfg.Password = d.env["DEMO_USER"], d.env["DEMO_PASSWORD"]
		}
		proxy, err := testbed.NewProxy(p.cfg)
		if err != nil {
			return err
		}
		d.proxies[string(p.cfg.Dialect)] = proxy
		d.setenv(p.env, proxy.Addr)
	}
	return nil
}

// serve loads the example into this process. The config is a user's, so its values come the way a user gives them.
func (d *demo) serve(example string, quiet bool) error {
	for name, value := range d.env {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return errors.New("this Caddy has no Caddyfile adapter: build it with Caddy's standard modules")
	}
	cfg, _, err := adapter.Adapt([]byte(example), map[string]any{"filename": "Caddyfile.example"})
	if err != nil {
		return err
	}
	if quiet {
		if cfg, err = withoutLog(cfg); err != nil {
			return err
		}
	}
	return caddy.Load(cfg, true)
}

func (d *demo) setenv(name, value string) { d.env[name] = value }

func (d *demo) close() error {
	var errs []error
	if d.page != nil {
		errs = append(errs, d.page.Close())
	}
	for _, p := range d.proxies {
		errs = append(errs, p.Close())
	}
	if d.origin != nil {
		errs = append(errs, d.origin.Close())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// localhost names a loopback address as the certificates and the browser do.
func localhost(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return "localhost:" + port
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
