package caddymodule

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
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

func newDemo() *demo {
	return &demo{proxies: make(map[string]*testbed.Proxy), env: make(map[string]string)}
}

// runDemo serves the example until ctx ends or the process is interrupted; with check it runs the routes instead.
func runDemo(ctx context.Context, example string, check bool, out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := newDemo()
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
	stop() // a second Ctrl-C does not wait
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
	return d.choosePorts(check)
}

// demoPorts are the variables that choose the demo's ports, with the example's defaults.
func demoPorts() []struct{ name, port string } {
	return []struct{ name, port string }{{"DEMO_PORT", "8080"}, {"DEMO_ADMIN_PORT", "2020"}}
}

// choosePorts takes the ports that the environment names, or free ones. Caddy shares a port with other programs that
// allow it, so that a demo that runs already would answer for this one: ports are tried here first.
func (d *demo) choosePorts(free bool) error {
	for _, v := range demoPorts() {
		port := cmp.Or(os.Getenv(v.name), v.port)
		if free {
			port = "0"
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			return fmt.Errorf("port %s cannot be used, choose another with %s=<port>: %w", port, v.name, err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		if err := l.Close(); err != nil {
			return err
		}
		d.setenv(v.name, port)
	}
	d.url = "http://localhost:" + d.env["DEMO_PORT"]
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
	if cfg, err = amendDemo(cfg, quiet); err != nil {
		return err
	}
	return caddy.Load(cfg, true)
}

// amendDemo makes the example's config leave no trace on this machine. A quiet one logs errors only, so that the table
// stands alone.
func amendDemo(cfg []byte, quiet bool) ([]byte, error) {
	var c struct {
		Admin   json.RawMessage `json:"admin"`
		Logging any             `json:"logging,omitempty"`
		Apps    map[string]any  `json:"apps"`
	}
	dec := json.NewDecoder(bytes.NewReader(cfg))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, err
	}
	c.Apps["tls"] = map[string]any{"disable_storage_clean": true}
	if quiet {
		c.Logging = map[string]any{"logs": map[string]any{"default": map[string]any{"level": "ERROR"}}}
	}
	return json.Marshal(c)
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
