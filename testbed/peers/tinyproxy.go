package peers

// Tinyproxy is an HTTP/1.1 forward proxy that lets CONNECT through to any port.
type Tinyproxy struct {
	// Username and Password, if set, are demanded by Basic authentication.
	Username, Password string
}

func (Tinyproxy) Program() string { return "tinyproxy" }

// Start implements [Kind].
func (c Tinyproxy) Start() (*Peer, error) {
	p, _, err := launch("tinyproxy", 1, func(s *setup) ([]string, error) {
		conf, err := s.writeConf("tinyproxy.conf", struct{ Port, Username, Password string }{s.ports[0], c.Username, c.Password})
		return []string{"-d", "-c", conf}, err
	})
	return p, err
}
