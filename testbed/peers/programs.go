package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A Program is something that has to be installed, and the Debian package that has it.
type Program struct {
	Name    string
	Package string
}

// Programs returns what the tests with real peers use: the peers themselves, and curl, which tries the peers
// without our own code in the way.
func Programs() []Program {
	return []Program{
		{"squid", "squid"},
		{"tinyproxy", "tinyproxy-bin"},
		{"danted", "dante-server"},
		{"microsocks", "microsocks"},
		{"nghttpx", "nghttp2-proxy"},
		{"nginx", "nginx"},
		{"curl", "curl"},
	}
}

// Missing returns the names of the programs that are not installed.
func Missing() []string {
	var names []string
	for _, p := range Programs() {
		if _, err := lookPath(p.Name); err != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// Need skips the test when one of the named programs is missing, and fails it when CI=true.
func Need(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := lookPath(name)
		switch {
		case err == nil:
		case os.Getenv("CI") == "true":
			t.Fatal(err)
		default:
			t.Skip(err)
		}
	}
}

// lookPath finds daemons too where PATH leaves out the sbin directories, as it does for normal users of Debian.
func lookPath(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	p := Program{Name: name, Package: name}
	if i := slices.IndexFunc(Programs(), func(p Program) bool { return p.Name == name }); i >= 0 {
		p = Programs()[i]
	}
	return "", &MissingError{Program: p}
}
