package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

//go:embed Caddyfile.tmpl
var caddyfile string

// A site is one way through a Caddy process: each has a port of its own.
type site struct {
	origin string // host:port, which the proxy is asked for
	proto  string // 1.1 or 2
	fresh  bool   // a connection to the origin for each request
}

// caddyProcess is a Caddy with one transport and a port for each site.
type caddyProcess struct {
	*process
	admin string
	sites map[site]string // host:port
	home  string
}

// caddyConfig is what the config is made of.
type caddyConfig struct {
	transport string // http or tunnel
	proxy     string // host:port of the CONNECT proxy
	ca        string // PEM of the origins' authorities
	idle      int    // connections kept for each origin
	flush     bool   // what comes from origins is passed on at once
	sites     []site
}

// startCaddy runs a Caddy. The caller stops it.
func startCaddy(ctx context.Context, program string, c caddyConfig) (_ *caddyProcess, err error) {
	p := &caddyProcess{sites: map[site]string{}}
	if p.home, err = os.MkdirTemp("", "bench-caddy-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(p.home)
		}
	}()
	file, err := p.configure(c)
	if err != nil {
		return nil, err
	}
	if p.process, err = startProcess(ctx, p.home, program, "run", "--config", file, "--adapter", "caddyfile"); err != nil {
		return nil, err
	}
	if err := p.awaitUp(ctx); err != nil {
		return nil, errors.Join(err, p.interrupt())
	}
	return p, nil
}

// configure writes the config and returns its path.
func (p *caddyProcess) configure(c caddyConfig) (string, error) {
	ca := filepath.Join(p.home, "ca.pem")
	if err := os.WriteFile(ca, []byte(c.ca), 0o600); err != nil {
		return "", err
	}
	ports, err := freePorts(len(c.sites) + 1)
	if err != nil {
		return "", err
	}
	p.admin = ports[0]
	type siteData struct {
		Addr, Origin, Versions string
		Fresh                  bool
	}
	data := struct {
		Admin, Transport, Proxy, CA string
		Idle                        int
		Flush                       bool
		Sites                       []siteData
	}{Admin: p.admin, Transport: c.transport, Proxy: c.proxy, CA: ca, Idle: c.idle, Flush: c.flush}
	for i, s := range c.sites {
		p.sites[s] = ports[i+1]
		versions := s.proto
		if s.proto == "2" {
			versions = "1.1 2"
		}
		data.Sites = append(data.Sites, siteData{ports[i+1], s.origin, versions, s.fresh})
	}
	var text strings.Builder
	if err := template.Must(template.New("Caddyfile").Parse(caddyfile)).Execute(&text, data); err != nil {
		return "", err
	}
	file := filepath.Join(p.home, "Caddyfile")
	return file, os.WriteFile(file, []byte(text.String()), 0o600)
}

// awaitUp waits until the admin API answers, which it does once everything listens.
func (p *caddyProcess) awaitUp(ctx context.Context) error {
	const limit = 30 * time.Second
	deadline := time.After(limit)
	for {
		_, err := get(ctx, "http://"+p.admin+"/config/apps/http")
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended: %w", p.cmd.Path, p.err)
		case <-deadline:
			return fmt.Errorf("%s is not up after %v: %w", p.cmd.Path, limit, err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *caddyProcess) stop() error {
	return errors.Join(p.interrupt(), os.RemoveAll(p.home))
}

func (p *caddyProcess) cpu() (time.Duration, error) { return processCPU(p.cmd.Process.Pid) }

// memory returns the bytes of live heap objects and of goroutine stacks once collections change them no more: each halves
// stacks that are too large, pools take two to be emptied, and connections of clients that have gone end in their own time.
func (p *caddyProcess) memory(ctx context.Context) (heap, stacks int64, err error) {
	const most, settled = 30, 0.002
	for range most {
		before := heap + stacks
		for range 2 {
			if _, err := get(ctx, "http://"+p.admin+"/debug/pprof/heap?gc=1"); err != nil {
				return 0, 0, err
			}
		}
		if heap, stacks, err = p.memstats(ctx); err != nil {
			return 0, 0, err
		}
		if math.Abs(float64(heap+stacks-before)) < settled*float64(before) {
			break
		}
	}
	return heap, stacks, nil
}

func (p *caddyProcess) memstats(ctx context.Context) (heap, stacks int64, err error) {
	text, err := get(ctx, "http://"+p.admin+"/debug/vars")
	if err != nil {
		return 0, 0, err
	}
	var vars struct {
		Memstats struct{ HeapAlloc, StackInuse int64 }
	}
	if err := json.Unmarshal(text, &vars); err != nil {
		return 0, 0, err
	}
	if vars.Memstats.HeapAlloc == 0 {
		return 0, 0, errors.New("/debug/vars tells nothing of the heap")
	}
	return vars.Memstats.HeapAlloc, vars.Memstats.StackInuse, nil
}

// freePorts returns n addresses of 127.0.0.1 that nothing listens on.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are open until all are chosen
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
