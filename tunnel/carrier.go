package tunnel

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddytunnel/caddytunnel/h2c"
)

// drainLimit is how long a carrier may take to see its last streams off.
const drainLimit = 5 * time.Second

var errNoStreams = errors.New("it allows no stream")

// carrier is one connection to an H2 proxy.
type carrier struct {
	conn  *h2c.Conn
	wire  *settling
	spent time.Duration // of the hop's time, by TLS; counts for the dial that opened it

	draining atomic.Bool

	// Guarded by the owner's mutex.
	owner   *Carriers
	key     carrierKey
	tunnels int // open, or being opened
	retired bool
	failed  error       // what those who wait for it fail with
	idle    *time.Timer // runs Carriers.expire; nil: none is pending
}

// drain closes the connection once what is left of its streams is over: the last bytes of a tunnel that was closed
// may still be on their way.
func (car *carrier) drain() {
	car.draining.Store(true)
	car.closeIfDrained()
	time.AfterFunc(drainLimit, func() { _ = car.conn.Close() })
}

func (car *carrier) closeIfDrained() {
	if car.draining.Load() && car.conn.InFlight() == 0 {
		_ = car.conn.Close()
	}
}

// unusable is why a new connection takes no stream.
func (car *carrier) unusable() error {
	if err := car.wire.ended(); err != nil {
		return fail(connectCode(err, ProxyProtocolError), err)
	}
	return fail(ProxyProtocolError, errNoStreams)
}

// overCarrier opens a tunnel to dest on a connection to the last of hops. If that connection proves dead or out of
// streams, nothing has gone anywhere, and a fresh one is tried, once.
func (t *trip) overCarrier(ctx context.Context, hops []Hop, dest target) (net.Conn, error) {
	carriers := t.Carriers
	if carriers == nil {
		carriers = &Carriers{private: true}
	}
	hop := &hops[len(hops)-1]
	key := carriers.key(hops, t.PullBytes)
	for fresh := false; ; fresh = true {
		opened := false
		car, err := carriers.take(ctx, key, fresh, func() (*carrier, error) {
			opened = true
			return t.openCarrier(ctx, hops, carriers.http2())
		})
		if err != nil {
			return nil, t.carrierFailed(hop, dest, err)
		}
		var spent time.Duration
		if opened {
			spent = car.spent
		}
		conn, err := t.stream(ctx, hop, car, spent, dest)
		if err == nil {
			return conn, nil
		}
		gone := t.giveUp(ctx, car, err)
		if ctx.Err() != nil || fresh || !gone && !unprocessed(err) || opened && !unprocessed(err) {
			return nil, t.failed(StageConnect, hop, dest.String(), err)
		}
	}
}

// giveUp ends a tunnel that was not opened, and tells whether its carrier is dead. A proxy that has not said a word by then is
// given up too: whoever waits for it to begin would wait for as long as it is silent.
func (t *trip) giveUp(ctx context.Context, car *carrier, err error) (gone bool) {
	gone = car.conn.Err() != nil
	if !car.wire.begun() {
		if ctx.Err() != nil {
			err = nil // the others may be more patient
		}
		car.owner.abandon(car, err)
	}
	var f *failure
	if gone || errors.As(err, &f) && f.status == http.StatusProxyAuthRequired {
		car.owner.retire(car)
	}
	car.owner.release(car)
	return gone
}

func unprocessed(err error) bool {
	var h *h2c.Error
	return errors.As(err, &h) && h.Unprocessed()
}

// carrierFailed makes an error of another dial, which waited for the same carrier, one of this dial.
func (t *trip) carrierFailed(hop *Hop, dest target, err error) *Error {
	if other, ok := errors.AsType[*Error](err); ok {
		mine := *other
		mine.Target = t.target
		return &mine
	}
	return t.failed(StageConnect, hop, dest.String(), err)
}

// openCarrier connects to the last of hops and starts HTTP/2 there.
func (t *trip) openCarrier(ctx context.Context, hops []Hop, cfg *h2c.Config) (*carrier, error) {
	conn, err := t.to(ctx, hops)
	if err != nil {
		return nil, err
	}
	hop := &hops[len(hops)-1]
	began := time.Now()
	ctx, cancel := hop.limit(ctx, 0)
	defer cancel()
	if conn, err = t.secure(ctx, hop, conn); err != nil {
		return nil, err
	}
	wire := &settling{Conn: conn}
	hc, err := h2c.New(ctx, wire, cfg)
	if err != nil {
		return nil, t.failed(StageConnect, hop, hop.Addr, err)
	}
	return &carrier{conn: hc, wire: wire, spent: time.Since(began)}, nil
}

// stream asks for a tunnel on car.
func (t *trip) stream(ctx context.Context, hop *Hop, car *carrier, spent time.Duration, dest target) (net.Conn, error) {
	ctx, cancel := hop.limit(ctx, spent)
	defer cancel()
	header := hop.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	if hop.Auth != nil {
		header.Set("Proxy-Authorization", basic(hop.Auth))
	}
	began := time.Now()
	conn, res, err := car.conn.Connect(ctx, dest.String(), header) //nolint:bodyclose // Connect has closed it
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && errors.Is(car.wire.ended(), errNotHTTP2):
		return nil, fail(ProxyProtocolError, errNotHTTP2)
	case err != nil:
		return nil, fail(connectCode(err, ProxyProtocolError), err)
	case conn == nil:
		return nil, refused(hop, res.StatusCode)
	}
	t.trace(hop, StageConnect, dest.String(), began)
	return &carried{Conn: conn, car: car}, nil
}

// carried is a tunnel on a carrier.
type carried struct {
	net.Conn
	car  *carrier
	once sync.Once
}

// CloseWrite ends the stream in one direction.
func (c *carried) CloseWrite() error { return closeWrite(c.Conn) }

// Close closes the tunnel, and its carrier if that was its own.
func (c *carried) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.car.owner.release(c.car) })
	return err
}
