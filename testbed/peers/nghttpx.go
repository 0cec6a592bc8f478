package peers

import "net"

// Nghttpx terminates TLS in front of another HTTP proxy, so that this is reached by CONNECT over HTTP/2 or, when
// that is what the client offers by ALPN, by CONNECT over HTTP/1.1 in TLS. Authentication is up to the other proxy.
// [Peer.CA] vouches for it.
type Nghttpx struct {
	// Backend is the host:port of the proxy behind it, such as [Tinyproxy].
	Backend string
	// MaxStreams bounds the tunnels on one HTTP/2 connection. Zero means 100.
	MaxStreams int
}

func (Nghttpx) Program() string { return "nghttpx" }

// Start implements [Kind].
func (c Nghttpx) Start() (*Peer, error) {
	ca, err := NewCA()
	if err != nil {
		return nil, err
	}
	p, _, err := launch("nghttpx", 1, func(s *setup) ([]string, error) {
		host, port, err := net.SplitHostPort(c.Backend)
		if err != nil {
			return nil, err
		}
		if err := ca.writeServer(s.dir); err != nil {
			return nil, err
		}
		streams := c.MaxStreams
		if streams == 0 {
			streams = 100
		}
		conf, err := s.writeConf("nghttpx.conf", struct {
			Dir, Port, BackendHost, BackendPort string
			MaxStreams                          int
		}{s.dir, s.ports[0], host, port, streams})
		return []string{"--conf=" + conf}, err
	})
	if err != nil {
		return nil, err
	}
	p.CA = ca
	return p, nil
}
