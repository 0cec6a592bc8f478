package peers

// Microsocks is a SOCKS5 server that lets CONNECT through to anywhere.
type Microsocks struct {
	// Username and Password, if set, are demanded by RFC 1929.
	Username, Password string
}

func (Microsocks) Program() string { return "microsocks" }

// Start implements [Kind].
func (c Microsocks) Start() (*Peer, error) {
	p, _, err := launch("microsocks", 1, func(s *setup) ([]string, error) {
		args := []string{"-i", "127.0.0.1", "-p", s.ports[0]}
		if c.Username != "" {
			args = append(args, "-u", c.Username, "-P", c.Password)
		}
		return args, nil
	})
	return p, err
}
