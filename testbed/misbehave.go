package testbed

import (
	"net/http"
	"time"
)

// Moment is a point in the exchange between a client and a [Proxy].
type Moment string

const (
	// AtAccept is before the proxy has read or written anything, TLS included.
	AtAccept Moment = "accept"

	// AtGreeting is, for socks5, when the greeting was read and not answered; for https and h2 when the TLS handshake
	// is done; for http the same as AtAccept.
	AtGreeting Moment = "greeting"

	// AtRequest is when the CONNECT or the SOCKS request was read and not answered.
	AtRequest Moment = "request"
)

// Flood is an endless reply head.
type Flood string

const (
	FloodField   Flood = "field"   // one field that does not end
	FloodFields  Flood = "fields"  // fields without end
	FloodInterim Flood = "interim" // interim replies without end
)

// Misbehave says what a [Proxy] does wrong. The zero value is a proxy that does nothing wrong. Fields combine where
// that makes sense; the connection's first fault in time wins. Over HTTP/2 (the h2 dialect) RawReply, CloseAfterReply,
// Flood, Dribble, HoldLast and Coalesce do nothing.
type Misbehave struct {
	Silent Moment // reads on but writes nothing any more from here on; empty: never
	Close  Moment // closes here; over HTTP/2 AtRequest resets the stream; empty: never

	// Garbage is written at accept, before TLS, in place of everything. The connection stays open.
	Garbage []byte

	// Status answers every CONNECT, with Body and Header; 0: as it should be answered. A 2xx opens the tunnel, but over
	// HTTP/2 not a 204: net/http's server sends nothing behind it.
	Status int
	Body   string
	Header http.Header // on every answer to CONNECT

	// RawReply is written in place of the answer to a CONNECT or SOCKS request that would have opened the tunnel, which
	// is then open.
	RawReply []byte

	// CloseAfterReply closes behind the answer, whatever it is.
	CloseAfterReply bool

	Flood    Flood         // in place of the answer to CONNECT; empty: none
	Delay    time.Duration // before the answer to CONNECT or the SOCKS request
	Dribble  bool          // every answer goes out byte by byte, each in a write of its own
	HoldLast time.Duration // before the last byte of the answer to CONNECT or the SOCKS request

	// Coalesce waits up to two seconds for the target's first bytes and sends them in one write with the answer.
	Coalesce bool

	CutAfter int64 // cuts the tunnel after so many bytes from the target; 0: never

	Method     int    // the SOCKS authentication method chosen, offered or not; 0: as it should be; -1: none (0x00)
	RawMethod  []byte // written in place of the SOCKS method selection
	RawLogin   []byte // written in place of the answer to the SOCKS login
	SOCKSReply byte   // answers every SOCKS request; 0: as it should be answered
}
