package peers

import (
	"crypto/md5" // the hash that squid's helper reads
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Squid is an HTTP/1.1 forward proxy that lets CONNECT through to any port.
type Squid struct {
	// Username and Password, if set, are demanded by Basic authentication, with the realm "peers".
	Username, Password string
}

func (Squid) Program() string { return "squid" }

// Start implements [Kind].
func (c Squid) Start() (*Peer, error) {
	p, _, err := launch("squid", 1, func(s *setup) ([]string, error) {
		data := struct{ Dir, Addr, Helper, Passwords string }{Dir: s.dir, Addr: s.addr(0)}
		if c.Username != "" {
			var err error
			if data.Helper, err = ncsaHelper(); err != nil {
				return nil, err
			}
			data.Passwords = filepath.Join(s.dir, "passwords")
			line := fmt.Sprintf("%s:%x\n", c.Username, md5.Sum([]byte(c.Password)))
			if err := os.WriteFile(data.Passwords, []byte(line), 0o600); err != nil {
				return nil, err
			}
		}
		conf, err := s.writeConf("squid.conf", data)
		return []string{"-N", "-f", conf}, err
	})
	return p, err
}

func ncsaHelper() (string, error) {
	for _, dir := range []string{"/usr/lib/squid", "/usr/lib64/squid", "/usr/libexec/squid"} {
		path := filepath.Join(dir, "basic_ncsa_auth")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("squid's basic_ncsa_auth was not found")
}
