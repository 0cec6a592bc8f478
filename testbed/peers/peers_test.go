package peers_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/peers"
)

const size = 1<<20 + 1

// A way is a proxy and how curl is told to use it.
type way struct {
	name   string
	proxy  *peers.Peer
	scheme string
	user   string // with its password
}

func ways(t *testing.T) []way {
	tinyproxy := func(c peers.Tinyproxy) string { return peers.Start(t, c).Addr }
	login := "user:pass"
	return []way{
		{"squid", peers.Start(t, peers.Squid{}), "http", ""},
		{"squid-login", peers.Start(t, peers.Squid{Username: "user", Password: "pass"}), "http", login},
		{"tinyproxy", peers.Start(t, peers.Tinyproxy{}), "http", ""},
		{"tinyproxy-login", peers.Start(t, peers.Tinyproxy{Username: "user", Password: "pass"}), "http", login},
		{"danted", peers.Start(t, peers.Danted{}), "socks5h", ""},
		{"microsocks", peers.Start(t, peers.Microsocks{}), "socks5h", ""},
		{"microsocks-login", peers.Start(t, peers.Microsocks{Username: "user", Password: "pass"}), "socks5h", login},
		{"nghttpx", peers.Start(t, peers.Nghttpx{Backend: tinyproxy(peers.Tinyproxy{})}), "https", ""},
		{"nghttpx-login", peers.Start(t, peers.Nghttpx{Backend: tinyproxy(peers.Tinyproxy{Username: "user", Password: "pass"})}), "https", login},
	}
}

func TestCurlThroughEveryPeer(t *testing.T) {
	names := make([]string, 0, 8)
	for _, p := range peers.Programs() {
		names = append(names, p.Name)
	}
	peers.Need(t, names...)
	origin := peers.StartNginx(t, peers.Nginx{Sizes: []int64{size}})
	want := sum(t, peers.Body(size))
	for _, w := range ways(t) {
		t.Run(w.name, func(t *testing.T) {
			page := "/bytes/1048577"
			for _, c := range [][]string{
				{"--http2", "https://" + origin.TLS + page},
				{"--http1.1", "https://" + origin.TLS + page},
				{"--proxytunnel", "http://" + origin.Plain + page},
				{"--proxytunnel", "--http2-prior-knowledge", "http://" + origin.H2C + page},
				{"https://" + strings.Replace(origin.TLS, "127.0.0.1", "localhost", 1) + page},
				{"--compressed", "https://" + origin.TLS + "/gzip/1048577"},
			} {
				got, err := curl(t, origin, w, w.user, c...)
				if err != nil {
					t.Fatalf("%v: %v", c, err)
				}
				if sum(t, bytes.NewReader(got)) != want {
					t.Errorf("%v: got another body, of %d bytes", c, len(got))
				}
			}
			if _, err := curl(t, origin, w, w.user, "--upload-file", bodyFile(t), "https://"+origin.TLS+"/upload/"+w.name); err != nil {
				t.Fatal("upload:", err)
			}
			if got := sum(t, uploaded(t, origin, w.name)); got != want {
				t.Error("the origin stored another body")
			}
			if _, err := curl(t, origin, w, w.user, "https://"+closedPort(t)+"/"); err == nil {
				t.Error("a closed port was reached")
			}
			if w.user == "" {
				return
			}
			for _, user := range []string{"", "user:wrong"} {
				if _, err := curl(t, origin, w, user, "https://"+origin.TLS+page); err == nil {
					t.Errorf("a client with the login %q was let through", user)
				}
			}
		})
	}
}

func TestDantedRefuses(t *testing.T) {
	peers.Need(t, "curl")
	origin := peers.StartNginx(t, peers.Nginx{Sizes: []int64{1}})
	_, port, err := net.SplitHostPort(origin.TLS)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]peers.Danted{
		"login": {DemandLogin: true},
		"rule":  {BlockPort: port},
	} {
		w := way{name: name, proxy: peers.Start(t, c), scheme: "socks5h"}
		if _, err := curl(t, origin, w, "user:pass", "https://"+origin.TLS+"/bytes/1"); err == nil {
			t.Errorf("%s: the client was let through", name)
		}
	}
}

func TestStopLeavesNothing(t *testing.T) {
	peers.Need(t, "danted", "nginx")
	tmp := t.TempDir()
	if err := os.Chmod(filepath.Dir(tmp), 0o755); err != nil { // peers may run as another user
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	for _, k := range []peers.Kind{peers.Danted{}, peers.Nginx{Sizes: []int64{10}}} {
		p, err := k.Start()
		if err != nil {
			t.Fatal(err)
		}
		p.Stop()
		p.Stop()
		if conn, err := net.Dial("tcp", p.Addr); err == nil {
			conn.Close()
			t.Errorf("%s still listens", p.Name)
		}
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStartErrorShowsLog(t *testing.T) {
	peers.Need(t, "nghttpx")
	_, err := peers.Nghttpx{Backend: "127.0.0.1:1", MaxStreams: -1}.Start()
	var failed *peers.StartError
	if !errors.As(err, &failed) || failed.Log == "" {
		t.Fatalf("got %v, want a StartError with what nghttpx printed", err)
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if !slices.Contains(peers.Missing(), "curl") {
		t.Error("curl was found in an empty PATH")
	}
}

// The Makefile installs and names the peers without building anything.
func TestMakefileNamesAll(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers.Programs() {
		for variable, name := range map[string]string{"PEERS": p.Name, "PACKAGES": p.Package} {
			line := regexp.MustCompile(`(?m)^` + variable + `\s*=.*\b` + name + `\b`)
			if !line.Match(makefile) {
				t.Errorf("%s in the Makefile lacks %s", variable, name)
			}
		}
	}
}

func curl(t *testing.T, origin *peers.Web, w way, user string, args ...string) ([]byte, error) {
	t.Helper()
	all := []string{
		"--silent", "--show-error", "--fail", "--max-time", "60", "--noproxy", "",
		"--proxy", w.scheme + "://" + w.proxy.Addr, "--cacert", pemFile(t, origin.CA),
	}
	if w.proxy.CA != nil {
		all = append(all, "--proxy-cacert", pemFile(t, w.proxy.CA))
	}
	if user != "" {
		all = append(all, "--proxy-user", user)
	}
	cmd := exec.Command("curl", append(all, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

func sum(t *testing.T, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func uploaded(t *testing.T, origin *peers.Web, name string) io.Reader {
	t.Helper()
	f, err := origin.Uploaded(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func bodyFile(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(peers.Body(size))
	if err != nil {
		t.Fatal(err)
	}
	return writeTemp(t, "body", b)
}

func pemFile(t *testing.T, ca *peers.CA) string { return writeTemp(t, "ca.pem", ca.PEM) }

func writeTemp(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// closedPort is an address of this host at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
