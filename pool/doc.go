// Package pool keeps HTTP connections by identity.
//
// A connection is shared only between requests whose Identity is equal; what makes an identity is the
// caller's business, and so is how a connection is made:
//
//	p := pool.New(pool.Options{MaxConnsPerHost: 100})
//	defer p.Close()
//	res, err := p.RoundTrip(req, id, func(ctx context.Context, m *pool.Memory) (pool.Conn, error) {
//		// dial, do TLS with m.Sessions("origin") as session cache, make an HTTP connection
//	}, nil)
//
// The pool reuses, limits, queues for and closes connections, and sends a request once more where that is
// provably safe. It knows neither proxies nor TLS nor HTTP's bytes: a Conn does.
//
// Not done: choosing an origin, health, redirects, cookies, decoding.
//
// RFC 9110 section 9.2.1: safe methods. RFC 9112 section 9.3.1 and RFC 9113 section 8.7: what may be sent again.
// RFC 9113 section 7: HTTP_1_1_REQUIRED.
package pool
