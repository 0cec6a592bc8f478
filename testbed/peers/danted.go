package peers

// Danted is dante's SOCKS server. It lets CONNECT through to any port of this host.
type Danted struct {
	// DemandLogin has it offer no method but username and password. It looks those up among the system's users, which it
	// is not allowed to here: whatever is given is refused.
	DemandLogin bool
	// BlockPort, if set, is a port that its rules forbid.
	BlockPort string
}

func (Danted) Program() string { return "danted" }

// Start implements [Kind].
func (c Danted) Start() (*Peer, error) {
	p, _, err := launch("danted", 1, func(s *setup) ([]string, error) {
		method := "none"
		if c.DemandLogin {
			method = "username"
		}
		conf, err := s.writeConf("danted.conf", struct{ Port, Method, BlockPort string }{s.ports[0], method, c.BlockPort})
		return []string{"-N", "1", "-f", conf, "-p", s.dir + "/pid"}, err
	})
	return p, err
}
