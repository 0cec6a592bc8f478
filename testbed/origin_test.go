package testbed

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpload(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		for _, n := range []int64{0, 1, 64 << 10, 1 << 20} {
			var got Uploaded
			_, body, err := try(t, c, http.MethodPost, m.base(o)+"/upload", PageReader(n))
			if err != nil || json.Unmarshal(body, &got) != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if got.Bytes != n || got.SHA256 != PageSum(n) || got.Proto != m.proto {
				t.Errorf("%d bytes: %+v", n, got)
			}
		}
	})
}

func TestUploadTrailers(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		req, err := http.NewRequestWithContext(within(t), http.MethodPut, m.base(o)+"/upload", io.MultiReader(PageReader(10)))
		if err != nil {
			t.Fatal(err)
		}
		req.Trailer = http.Header{"X-End": {"reached"}}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var got Uploaded
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || got.Trailers.Get("X-End") != "reached" {
			t.Errorf("%v: %+v", err, got)
		}
	})
}

func TestEchoIsFullDuplex(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		send, body := io.Pipe()
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, m.base(o)+"/echo", send)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		buf := make([]byte, 4)
		for i := range 5 {
			want := fmt.Sprintf("%04d", i)
			if _, err := io.WriteString(body, want); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != want {
				t.Fatalf("%q, %v", buf, err)
			}
		}
		body.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

func TestHeadersTellWhatWasSeen(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		_, body := get(t, c, m.base(o)+"/headers?a=b", "X-Mine", "yes")
		var saw Saw
		if err := json.Unmarshal(body, &saw); err != nil {
			t.Fatal(err)
		}
		tlsWanted := strings.HasPrefix(m.base(o), "https")
		if saw.Proto != m.proto || saw.URI != "/headers?a=b" || saw.Header.Get("X-Mine") != "yes" || saw.TLS != tlsWanted || saw.Method != "GET" {
			t.Errorf("%+v", saw)
		}
		peers := o.Seen()
		if len(peers) != 1 || peers[0].RemoteAddr != saw.RemoteAddr || peers[0].Listener != saw.Listener || !peers[0].Open {
			t.Fatalf("peers %+v", peers)
		}
		if (peers[0].TLS != nil) != tlsWanted || tlsWanted && !peers[0].TLS.Complete {
			t.Errorf("TLS %+v", peers[0].TLS)
		}
		if requests := o.Requests(); len(requests) != 1 || requests[0].URI != saw.URI {
			t.Errorf("requests %+v", requests)
		}
		if direct := o.Direct(); len(direct) != 1 {
			t.Errorf("direct %+v", direct)
		}
	})
}

func TestResumptionAndNameAreSeen(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	cfg := &tls.Config{RootCAs: o.CA(), ServerName: "origin.test", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i := range 3 {
		c := newClientOf(t, o, func(tr *http.Transport) {
			tr.TLSClientConfig = cfg
			tr.DisableKeepAlives = true
		})
		_, body := get(t, c, "https://"+o.TLSH1+"/headers")
		var saw Saw
		if err := json.Unmarshal(body, &saw); err != nil || saw.ServerName != "origin.test" || saw.Resumed != (i > 0) {
			t.Errorf("connection %d: %+v, %v", i, saw, err)
		}
	}
	for i, peer := range o.Seen() {
		if peer.TLS == nil || peer.TLS.ServerName != "origin.test" || peer.TLS.Resumed != (i > 0) || peer.Requests != 1 {
			t.Errorf("peer %d: %+v %+v", i, peer, peer.TLS)
		}
	}
}

func TestClientCertificate(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	dir := t.TempDir()
	certFile, keyFile, err := o.ClientCertFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	with := newClientOf(t, o, func(tr *http.Transport) { tr.TLSClientConfig.Certificates = []tls.Certificate{cert} })
	_, body := get(t, with, "https://"+o.ClientCert+"/headers")
	var saw Saw
	if err := json.Unmarshal(body, &saw); err != nil || saw.ClientCert != "CN=Testbed Client" {
		t.Errorf("%+v, %v", saw, err)
	}
	if res, _, err := try(t, newClientOf(t, o, nil), http.MethodGet, "https://"+o.ClientCert+"/headers", nil); err == nil {
		t.Errorf("without a certificate: %s", res.Status)
	}
	if file, err := o.CAFile(dir); err != nil || filepath.Base(file) != "ca.pem" {
		t.Error(file, err)
	}
}

func TestExpiredCertificate(t *testing.T) {
	a, err := NewAuthority("CA")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(CertRequest{CommonName: "old", Names: []string{"127.0.0.1"}, NotAfter: a.cert.NotBefore})
	if err != nil {
		t.Fatal(err)
	}
	o := newOrigin(t, OriginConfig{Authority: a, ConfigureTLS: func(listener string, cfg *tls.Config) {
		if listener == "tls" {
			cfg.Certificates = []tls.Certificate{cert}
		}
	}})
	var invalid *tls.CertificateVerificationError
	if _, _, err := try(t, newClientOf(t, o, nil), http.MethodGet, "https://"+o.TLS, nil); !errors.As(err, &invalid) {
		t.Errorf("error %v", err)
	}
	get(t, newClientOf(t, o, nil), "https://"+o.TLSH1)
}

func TestTrailersHintsStatusAndLast(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		res, _ := get(t, c, m.base(o)+"/trailers")
		if res.Trailer.Get("X-Announced") != "yes" || res.Trailer.Get("X-Unannounced") != "too" {
			t.Errorf("trailers %v", res.Trailer)
		}

		var interim []string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			interim = append(interim, fmt.Sprint(code, len(header["Link"])))
			return nil
		}}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(within(t), trace), http.MethodGet, m.base(o)+"/early-hints", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err = c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if fmt.Sprint(interim) != "[103 1 103 2]" {
			t.Errorf("interim %v", interim)
		}

		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, code := range []int{200, 204, 302, 304, 401, 404, 503} {
			if res, _ := get(t, c, fmt.Sprintf("%s/status/%d?location=/x", m.base(o), code)); res.StatusCode != code {
				t.Errorf("%d, want %d", res.StatusCode, code)
			}
		}

		before := o.Accepted()
		get(t, c, m.base(o)+"/last")
		get(t, c, m.base(o)+"/headers")
		if o.Accepted() != before+1 {
			t.Errorf("%d connections, want one more than %d", o.Accepted(), before)
		}
	})
}

func TestBrokenAnswers(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		for _, path := range []string{
			"/broken/short", "/broken/short?send=0", "/broken/chunk", "/broken/reset", "/broken/no-reply", "/broken/head", "/broken/garbage",
		} {
			if res, body, err := try(t, c, http.MethodGet, m.base(o)+path, nil); err == nil {
				t.Errorf("%s: %s %q without an error", path, res.Status, body)
			}
		}
		if _, body := get(t, c, m.base(o)+"/until-close?n=5000"); !bytes.Equal(body, pageBytes(5000)) {
			t.Errorf("until-close: %d bytes", len(body))
		}
		if _, body := get(t, c, m.base(o)+"/slow?n=3&chunk=10&every=1ms&wait=1ms"); !bytes.Equal(body, pageBytes(30)) {
			t.Errorf("slow: %q", body)
		}
		if res, _, err := try(t, c, http.MethodPost, m.base(o)+"/early", PageReader(100)); err == nil && res.StatusCode != 413 {
			t.Errorf("early: %s", res.Status)
		}
	})
}

func TestHugeHead(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		res, _ := get(t, c, m.base(o)+"/huge-head?n=20KiB")
		var size int
		for name, values := range res.Header {
			size += len(name) + len(values[0])
		}
		if size < 20<<10 {
			t.Errorf("a head of %d bytes", size)
		}
	})
}

func TestGRPCLike(t *testing.T) {
	run(t, func(t *testing.T, m mode, c *http.Client, o *Origin) {
		var message bytes.Buffer
		for i := range 3 {
			message.WriteByte(0)
			_ = binary.Write(&message, binary.BigEndian, uint32(i))
			message.WriteString(strings.Repeat("x", i))
		}
		res, body, err := try(t, c, http.MethodPost, m.base(o)+"/grpc?status=0", bytes.NewReader(message.Bytes()), "Te", "trailers")
		if err != nil || !bytes.Equal(body, message.Bytes()) || res.Trailer.Get("Grpc-Status") != "0" || res.Header.Get("X-Te") != "trailers" {
			t.Errorf("%v: %q, trailers %v, header %v", err, body, res.Trailer, res.Header)
		}
		res, body, err = try(t, c, http.MethodPost, m.base(o)+"/grpc?status=7&trailers-only", nil)
		if err != nil || len(body) != 0 || res.Header.Get("Grpc-Status") != "7" {
			t.Errorf("%v: %v", err, res)
		}
	})
}

func TestIndexListsWhatWorks(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	c := newClientOf(t, o, nil)
	res, index := get(t, c, "http://"+o.Plain+"/")
	if res.StatusCode != http.StatusOK || !bytes.Contains(index, []byte("/bytes/64KiB")) {
		t.Errorf("%s: %s", res.Status, index)
	}
	var paths []pathInfo
	_, list := get(t, c, "http://"+o.Plain+"/paths")
	if err := json.Unmarshal(list, &paths); err != nil || len(paths) < 20 {
		t.Fatalf("%v: %s", err, list)
	}
	for _, p := range paths {
		for _, slow := range []string{"/broken/", "/events", "/slow", "/bomb", "/status", "/ws", "/upgrade", "/early"} {
			if strings.HasPrefix(p.Path, slow) && p.Path != "/early-hints" {
				p.Path = ""
			}
		}
		if p.Path == "" {
			continue
		}
		if res, _ := get(t, c, "http://"+o.Plain+p.Path); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", p.Path, res.Status)
		}
	}
}

func TestExtraComesFirst(t *testing.T) {
	o := newOrigin(t, OriginConfig{Extra: map[string]http.Handler{
		"/headers": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mine") }),
	}})
	c := newClientOf(t, o, nil)
	if _, body := get(t, c, "http://"+o.Plain+"/headers"); string(body) != "mine" {
		t.Errorf("%q", body)
	}
	if res, _ := get(t, c, "http://"+o.Plain+"/trailers"); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.sock")
	o := newOrigin(t, OriginConfig{Socket: path})
	conn := dialTCP(t, "unix", path)
	fmt.Fprint(conn, "GET /bytes/10 HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if o.Socket != path || o.Seen()[0].Listener != "socket" || len(o.Direct()) != 1 {
		t.Errorf("%q %+v", o.Socket, o.Seen())
	}
}

func TestAddressInUse(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	if second, err := NewOrigin(OriginConfig{TLS: o.TLS}); err == nil {
		second.Close()
		t.Error("two origins on one port")
	}
}

func TestDropAndClose(t *testing.T) {
	o := newOrigin(t, OriginConfig{})
	conn := dialTCP(t, "tcp", o.Plain)
	fmt.Fprint(conn, "GET /broken/hang HTTP/1.1\r\nHost: a\r\n\r\n")
	idle := dialTCP(t, "tcp", o.Raw)
	fmt.Fprint(idle, "x")
	if _, err := io.ReadFull(idle, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	o.DropConns()
	for _, c := range []net.Conn{conn, idle} {
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes on a dropped connection", n)
		}
	}
	again := dialTCP(t, "tcp", o.Raw)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives the origin")
	}
	if n := o.Conns(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
	if err := o.Close(); err != nil {
		t.Error("closing twice:", err)
	}
}
