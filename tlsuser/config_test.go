package tlsuser

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

func identity(c *Config) string {
	var b bytes.Buffer
	c.WriteIdentity(&b)
	return b.String()
}

func TestIdentityTellsConfigsApart(t *testing.T) {
	ca := newAuthority(t, "Test CA")
	pool, cert1, cert2 := ca.pool(), ca.issue(nil, "a.test"), ca.issue(nil, "a.test")
	chooser := func(cert *tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	configs := map[string]*Config{
		"nil":                nil,
		"zero":               {},
		"server name":        {ServerName: "a"},
		"verify name":        {VerifyName: "a"},
		"both":               {ServerName: "a", VerifyName: "b"},
		"both, shifted":      {ServerName: "ab"},
		"roots":              {RootCAs: pool},
		"equal roots":        {RootCAs: ca.pool()},
		"empty roots":        {RootCAs: x509.NewCertPool()},
		"certificate":        {Certificates: []tls.Certificate{cert1}},
		"other certificate":  {Certificates: []tls.Certificate{cert2}},
		"two certificates":   {Certificates: []tls.Certificate{cert1, cert2}},
		"chain":              {Certificates: []tls.Certificate{{Certificate: [][]byte{cert1.Certificate[0], cert2.Certificate[0]}}}},
		"closure":            {GetClientCertificate: chooser(&cert1)},
		"closure of another": {GetClientCertificate: chooser(&cert2)},
		"insecure":           {InsecureSkipVerify: true},
		"curve":              {CurvePreferences: []tls.CurveID{1}},
		"renegotiation":      {Renegotiation: 1},
		"protocol":           {NextProtos: []string{"h2"}},
		"protocols":          {NextProtos: []string{"h", "2"}},
	}
	t.Run("T07_all_differ", func(t *testing.T) {
		seen := make(map[string]string)
		for name, cfg := range configs {
			id := identity(cfg)
			if other, ok := seen[id]; ok {
				t.Errorf("%q and %q have one identity", name, other)
			}
			seen[id] = name
			if identity(cfg) != id {
				t.Errorf("the identity of %q changes", name)
			}
		}
	})
	same := &Config{ServerName: "a", Timeout: time.Second, Sessions: tls.NewLRUClientSessionCache(1)}
	if identity(same) != identity(configs["server name"]) {
		t.Error("Timeout or Sessions are part of the identity")
	}
}
