package pool

import "time"

// Options tunes a Pool. The zero value works.
type Options struct {
	// MaxConnsPerHost is the most connections to one Identity.Addr, those that are being made included.
	// At the limit a request waits for its turn, first come, first served. 0: no limit.
	MaxConnsPerHost int
	// MaxIdle is the most connections without a request, over all identities; the one idle for longest is
	// closed. 0: no limit; negative: none is kept.
	MaxIdle int
	// MaxIdlePerHost is the same for one identity. 0: 32; negative: none is kept.
	MaxIdlePerHost int
	// IdleTimeout is how long a connection without a request stays open. 0: 2 minutes; negative: no limit.
	IdleTimeout time.Duration
	// DisableKeepAlives gives each request a connection of its own, which is closed after it.
	DisableKeepAlives bool
	// MaxIdentities is the most identities remembered; the least recently used one without a request is forgotten,
	// with its connections and TLS sessions. Identities in use are never forgotten, even above it. 0: 1000.
	MaxIdentities int
	// ReplayBytes is the longest request body that can be sent once more. 0: 64 KiB; negative: none.
	ReplayBytes int64
}

func (o *Options) maxIdlePerHost() int {
	if o.MaxIdlePerHost == 0 {
		return 32
	}
	return max(o.MaxIdlePerHost, 0)
}

func (o *Options) idleTimeout() time.Duration {
	if o.IdleTimeout == 0 {
		return 2 * time.Minute
	}
	return o.IdleTimeout
}

func (o *Options) maxIdentities() int {
	if o.MaxIdentities == 0 {
		return 1000
	}
	return o.MaxIdentities
}

func (o *Options) replayBytes() int64 {
	if o.ReplayBytes == 0 {
		return 64 << 10
	}
	return max(o.ReplayBytes, 0)
}
