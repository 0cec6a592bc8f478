package caddymodule

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// twoLegs are a proxy and an origin whose certificates one authority has signed, so that what is meant for one leg would do
// for the other. Each wants a client certificate of that authority.
type twoLegs struct {
	t       *testing.T
	dialect string
	proxy   *testbed.Proxy
	origin  *testbed.Origin
	dir, ca string
}

func startTwoLegs(t *testing.T, dialect string) *twoLegs {
	t.Helper()
	authority, err := testbed.NewAuthority("both")
	if err != nil {
		t.Fatal(err)
	}
	l := &twoLegs{t: t, dialect: dialect, dir: t.TempDir()}
	if l.ca, err = authority.WriteFile(l.dir); err != nil {
		t.Fatal(err)
	}
	l.origin, err = testbed.NewOrigin(testbed.OriginConfig{
		Authority: authority, Names: []string{"o.test"},
		ConfigureTLS: func(_ string, cfg *tls.Config) { cfg.CurvePreferences = []tls.CurveID{tls.X25519} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.origin.Close() })
	l.proxy, err = testbed.NewProxy(testbed.ProxyConfig{
		Dialect: testbed.Dialect(dialect), Authority: authority, Names: []string{"p.test"},
		ConfigureTLS: func(cfg *tls.Config) {
			cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, authority.Pool()
			cfg.CurvePreferences = []tls.CurveID{tls.CurveP256}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.proxy.Close() })
	return l
}

// words are a leg's settings, of those that are named.
func (l *twoLegs) words(leg string, settings string) string {
	l.t.Helper()
	var words []string
	for setting := range strings.FieldsSeq(settings) {
		switch setting {
		case "name":
			words = append(words, "tls_server_name "+leg[:1]+".test")
		case "roots":
			words = append(words, "tls_trust_pool file "+l.ca)
		case "skip":
			words = append(words, "tls_insecure_skip_verify")
		case "curve":
			words = append(words, "tls_curves "+map[string]string{"proxy": "secp256r1", "origin": "x25519"}[leg])
		case "cert":
			words = append(words, "tls_client_auth "+clientCert(l.t, l.dir, l.origin.Authority(), "client-of-"+leg))
		}
	}
	return strings.Join(words, "\n")
}

// clientCert writes a client's certificate and key, unless they are there, and returns the names of the files.
func clientCert(t *testing.T, dir string, authority *testbed.Authority, name string) string {
	t.Helper()
	certFile := filepath.Join(dir, name+".pem")
	if _, err := os.Stat(certFile); err == nil {
		return certFile + " " + filepath.Join(dir, name+"-key.pem")
	}
	cert, err := authority.Issue(testbed.CertRequest{CommonName: name, Client: true})
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := testbed.WriteCert(dir, name, cert)
	if err != nil {
		t.Fatal(err)
	}
	return certFile + " " + keyFile
}

// TestTrustOfLegs leaves a setting out of one leg that stands in the other, for each setting, leg and dialect. A certificate
// that is missed is told by an alert, which a reset of the connection may overtake.
func TestTrustOfLegs(t *testing.T) {
	const all = "name roots cert curve"
	for name, tt := range map[string]struct{ proxy, origin, code string }{
		"T01_each_its_own":                     {all, all, ""},
		"T01_each_its_own_unverified":          {"skip cert", "skip cert", ""},
		"T01_name_of_origin_only":              {"roots cert", all, "proxy_cert_name_mismatch"},
		"T01_name_of_proxy_only":               {all, "roots cert", "origin_cert_name_mismatch"},
		"T01_roots_of_origin_only":             {"name cert", all, "proxy_cert_untrusted"},
		"T01_roots_of_proxy_only":              {all, "name cert", "origin_cert_untrusted"},
		"T01_certificate_of_origin_only":       {"name roots", all, "proxy_"},
		"T01_certificate_of_proxy_only":        {all, "name roots", "origin_"},
		"T01_skipped_for_origin_only":          {"name cert", "name cert skip", "proxy_cert_untrusted"},
		"T01_skipped_for_proxy_only":           {"name cert skip", "name cert", "origin_cert_untrusted"},
		"T01_skipped_for_origin_only_by_name":  {"roots cert", "cert skip", "proxy_cert_name_mismatch"},
		"T01_skipped_for_proxy_only_by_name":   {"cert skip", "roots cert", "origin_cert_name_mismatch"},
		"T01_roots_and_skipped_of_origin_only": {"name cert", "cert roots skip", "proxy_cert_untrusted"},
		"T01_all_of_origin_only":               {"", all, "proxy_cert_name_mismatch"},
		"T01_all_of_proxy_only":                {all, "", "origin_cert_name_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dialect := range []string{"https", "h2"} {
				for _, upstream := range []string{"", "versions 1.1"} {
					l := startTwoLegs(t, dialect)
					s := startGuarded(t, pathSite("x", "https://"+l.origin.ClientCert, "", fmt.Sprintf("via {\nproxy %s {\n%s\n}\n}\n%s\n%s",
						l.proxy.URL(), l.words("proxy", tt.proxy), upstream, l.words("origin", tt.origin))))
					status := 200
					if tt.code != "" {
						status = 502
					}
					s.get("/x/bytes/1", status)
					if tt.code != "" {
						if e := s.failures(); len(e) != 1 || !strings.HasPrefix(fmt.Sprint(e[0]["code"]), tt.code) {
							t.Errorf("%s: logged %v", dialect, e)
						}
						if n := len(l.origin.Requests()); n != 0 {
							t.Errorf("%s: the origin got %d requests", dialect, n)
						}
					}
					if n := len(l.origin.Seen()); strings.HasPrefix(tt.code, "proxy_") && n != 0 {
						t.Errorf("%s: %d connections to the origin", dialect, n)
					}
					l.assertShown("proxy", l.proxy.Peers(), tt.proxy)
					l.assertShown("origin", l.origin.Seen(), tt.origin)
				}
			}
		})
	}
	t.Run("T01_curves", func(t *testing.T) {
		for _, dialect := range []string{"https", "h2"} {
			for legs, status := range map[[2]string]int{{"proxy", "origin"}: 200, {"origin", "origin"}: 502, {"proxy", "proxy"}: 502} {
				l := startTwoLegs(t, dialect)
				s := startGuarded(t, pathSite("x", "https://"+l.origin.TLS, "", fmt.Sprintf("via {\nproxy %s {\ntls_insecure_skip_verify\n%s\n%s\n}\n}\n%s\n%s", l.proxy.URL(),
					l.words("proxy", "cert"), l.words(legs[0], "curve"), l.words("origin", "roots name"), l.words(legs[1], "curve"))))
				s.get("/x/bytes/1", status)
			}
		}
	})
	t.Run("T01_two_proxies", func(t *testing.T) {
		near, far := startTwoLegs(t, "https"), startTwoLegs(t, "h2")
		words := func(l *twoLegs) string {
			return fmt.Sprintf("{\nproxy %s {\n%s\n}\n}\n", l.proxy.URL(), l.words("proxy", all))
		}
		s := startGuarded(t, pathSite("x", "https://"+far.origin.ClientCert, "", "via "+words(near)+"then "+words(far)+far.words("origin", all)))
		s.get("/x/bytes/1", 200)
		near.assertShown("proxy", near.proxy.Peers(), all)
		far.assertShown("proxy", far.proxy.Peers(), all)
		far.assertShown("origin", far.origin.Seen(), all)
	})
}

// assertShown checks that a leg's peers were shown nothing that is another's.
func (l *twoLegs) assertShown(leg string, peers []testbed.Peer, settings string) {
	l.t.Helper()
	for _, peer := range peers {
		if peer.TLS == nil {
			continue
		}
		wantName := ""
		if strings.Contains(settings, "name") {
			wantName = leg[:1] + ".test"
		}
		if peer.TLS.ServerName != wantName {
			l.t.Errorf("%s: the %s saw the name %q", l.dialect, leg, peer.TLS.ServerName)
		}
		if cert := peer.TLS.ClientCert; cert != "" && cert != "CN=client-of-"+leg {
			l.t.Errorf("%s: the %s saw the certificate %s", l.dialect, leg, cert)
		}
		if leg == "proxy" && strings.Join(peer.TLS.Offered, " ") != map[string]string{"https": "http/1.1", "h2": "h2"}[l.dialect] {
			l.t.Errorf("%s: the proxy was offered %v", l.dialect, peer.TLS.Offered)
		}
	}
}
