package caddymodule

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// decoyVar tells the inner run of TestEnvironment which proxy its environment names.
const decoyVar = "TUNNEL_TEST_DECOY"

// TestEnvironment points every proxy variable to a proxy that must not be used, neither for origins nor for the legs to proxies,
// and exempts origins from the proxies that must be. It does so in processes of their own, as net/http reads the variables once.
func TestEnvironment(t *testing.T) {
	if os.Getenv(decoyVar) != "" {
		assertEnvironmentIgnored(t)
		return
	}
	t.Run("K05_proxy", func(t *testing.T) { runWithProxyVariables(t, "") })
	t.Run("K05_no_proxy", func(t *testing.T) { runWithProxyVariables(t, "*") })
	t.Run("K05_asked_for", func(t *testing.T) {
		b := newBed(t)
		t.Setenv("HTTPS_PROXY", b.proxies["http"].URL())
		t.Setenv("NO_PROXY", "*")
		s := startGuarded(t, pathSite("asked", b.origin.Plain, "", "via {env.HTTPS_PROXY}"))
		s.get("/asked/bytes/1", 200)
		if n := len(b.proxies["http"].Targets()); n != 1 {
			t.Errorf("%d tunnels", n)
		}
		b.assertNoDirect()
	})
}

// runWithProxyVariables runs the test once more in a process whose environment names a decoy, and exempts noProxy from it.
func runWithProxyVariables(t *testing.T, noProxy string) {
	decoy, err := testbed.NewProxy(testbed.ProxyConfig{Dialect: testbed.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	defer decoy.Close()
	inner := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironment$")
	inner.Env = append(os.Environ(), decoyVar+"="+decoy.URL(), "NO_PROXY="+noProxy, "no_proxy="+noProxy)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		inner.Env = append(inner.Env, name+"="+decoy.URL(), strings.ToLower(name)+"="+decoy.URL())
	}
	if out, err := inner.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := decoy.Accepted(); n != 0 {
		t.Errorf("the proxy of the environment got %d connections", n)
	}
}

// assertEnvironmentIgnored uses names throughout, because addresses of this host are exempt from what the environment says.
func assertEnvironmentIgnored(t *testing.T) {
	b, reached := newBed(t), newBed(t) // the second one's origin is reached directly
	dns := "\nresolvers " + startDNS(t)
	var site string
	var paths []string
	add := func(name, upstream, words string) {
		site += pathSite(name, upstream, checks, words+dns)
		paths = append(paths, "/"+name)
	}
	for _, way := range bedWays {
		to := b
		if way == "direct" {
			to = reached
		}
		via := strings.ReplaceAll(b.via(way), "//127.0.0.1:", "//proxy.test:")
		add(way, "origin.test:"+port(t, to.origin.Plain), via)
		add(way+"-tls", "https://origin.test:"+port(t, to.origin.TLS), via+"\ntls_trust_pool file "+to.originCA)
		add(way+"-h2c", "h2c://origin.test:"+port(t, to.origin.Plain), via)
	}
	named := "http://proxy.test:" + port(t, b.proxies["http"].Addr)
	add("network_proxy-url", "origin.test:"+port(t, b.origin.Plain), "network_proxy url "+named)
	add("network_proxy-none", "origin.test:"+port(t, reached.origin.Plain), "network_proxy none")
	add("bypass", "other.test:"+port(t, reached.origin.Plain), "via "+named+"\nbypass other.test")

	s := startGuarded(t, site)
	for _, path := range paths {
		s.get(path+"/bytes/10", 200)
	}
	awaitTrue(t, "health checks", func() bool { return b.checked() >= 30 && reached.checked() >= 15 })
	b.assertNoDirect()
	for way, p := range b.proxies {
		for _, target := range p.Targets() {
			if at := port(t, target); at == port(t, reached.origin.Plain) || at == port(t, reached.origin.TLS) {
				t.Errorf("the %s proxy was asked for the origin that is to be reached directly", way)
			}
		}
	}
	decoy := os.Getenv(decoyVar)
	if os.Getenv("NO_PROXY") != "" {
		decoy = ""
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "https://origin.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := http.ProxyFromEnvironment(req)
	if err != nil || (u == nil) != (decoy == "") || u != nil && u.String() != decoy {
		t.Errorf("the proxy of the environment is %v, %v", u, err)
	}
}
