package peers

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Free ports are looked for below those that systems give out by themselves, so that no test's listener or
// connection gets one of them between our look and the peer's bind.
const firstPort, endPort = 16000, 30000

func freePorts(n int) ([]string, error) {
	ports := make([]string, 0, n)
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := strconv.Itoa(firstPort + rand.IntN(endPort-firstPort))
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		defer ln.Close() // held until all are found, so that they differ
		ports = append(ports, port)
	}
	return nil, errors.New("no free port on 127.0.0.1")
}
