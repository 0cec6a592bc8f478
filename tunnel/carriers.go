package tunnel

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/caddytunnel/caddytunnel/h2c"
)

const (
	// DefaultIdleTimeout is how long a connection to an H2 proxy is kept without a tunnel.
	DefaultIdleTimeout = 2 * time.Minute

	// DefaultPingIdle is how long an H2 proxy may be silent until it is asked whether it lives.
	DefaultPingIdle = 30 * time.Second

	// DefaultPingTimeout is how long its answer may take.
	DefaultPingTimeout = 15 * time.Second
)

// Carriers holds connections to H2 proxies, each of which carries many tunnels. Dials share one only if every hop up
// to and including that proxy is equal in all that shapes a connection, credentials included, and so is PullBytes;
// dialers whose Dial leads to different networks must not share Carriers. When a connection is out of streams
// another is opened; one that died is dropped.
//
// The zero value is ready. All methods may be called concurrently. It must not be copied.
type Carriers struct {
	// IdleTimeout closes a connection that carried no tunnel for so long. Zero: DefaultIdleTimeout. Negative: never.
	IdleTimeout time.Duration

	// MaxIdle is the most connections kept without a tunnel, over all identities; the one idle for longest is closed.
	// Zero: 1000. Negative: no limit.
	MaxIdle int

	// PingIdle is how long nothing may come from a proxy before a PING asks whether it lives. One that does not answer
	// within PingTimeout fails its tunnels, and the next dial makes a new connection. Zero: DefaultPingIdle. Negative: no PING.
	PingIdle time.Duration

	// PingTimeout is how long the answer to a PING may take. Zero: DefaultPingTimeout.
	PingTimeout time.Duration

	mu      sync.Mutex // guards what follows and all fields of groups and carriers; never held while a conn is used
	secret  []byte
	groups  map[carrierKey]*group
	idle    []*carrier // without a tunnel, those idle for longest first
	private bool       // nothing is kept: a connection is closed with its last tunnel
}

type carrierKey [sha256.Size]byte

// group is the carriers of one key.
type group struct {
	carriers []*carrier
	opening  *opening
	slots    broadcast // a stream may have become free
}

// opening is a carrier that is being made. One is made at a time, and the others wait.
type opening struct {
	done chan struct{}
	err  error // valid after done; nil also if the carrier is of no use to anyone but its maker
}

// key tells whose carriers may be used. It is an HMAC, as it is made of credentials.
func (c *Carriers) key(hops []Hop, pullBytes int) carrierKey {
	c.mu.Lock()
	if c.secret == nil {
		c.secret = make([]byte, sha256.Size)
		_, _ = rand.Read(c.secret) // never fails
	}
	mac := hmac.New(sha256.New, c.secret)
	c.mu.Unlock()
	writeNumber(mac, uint64(pullBytes))
	writeNumber(mac, uint64(len(hops)))
	for i := range hops {
		hops[i].WriteIdentity(mac)
	}
	return carrierKey(mac.Sum(nil))
}

// take returns a carrier on which the caller holds a stream: one that is open unless fresh is asked for, one that
// someone else is opening, or one of its own. The error is that of open, the caller's own or of the one waited for.
func (c *Carriers) take(ctx context.Context, key carrierKey, fresh bool, open func() (*carrier, error)) (*carrier, error) {
	for ; ; fresh = false {
		c.mu.Lock()
		g := c.groupOf(key)
		carriers := slices.Clone(g.carriers)
		c.mu.Unlock()
		free := g.slots.wait()
		if !fresh {
			for _, car := range carriers {
				if c.reserve(car) {
					return car, nil
				}
			}
		}
		under, own := c.begin(key, carriers)
		switch {
		case own:
			return c.grow(ctx, key, under, open)
		case under == nil:
			continue
		}
		select {
		case <-under.done:
			if under.err != nil {
				return nil, under.err
			}
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *Carriers) groupOf(key carrierKey) *group {
	if c.groups == nil {
		c.groups = make(map[carrierKey]*group)
	}
	g := c.groups[key]
	if g == nil {
		g = new(group)
		c.groups[key] = g
	}
	return g
}

// reserve takes a stream of car, and drops car if it is dead.
func (c *Carriers) reserve(car *carrier) bool {
	if !car.conn.Reserve() {
		if car.conn.Err() != nil {
			c.retire(car)
		}
		return false
	}
	c.mu.Lock()
	usable := !car.retired
	if usable {
		car.tunnels++
		c.wake(car)
	}
	c.mu.Unlock()
	if !usable {
		car.conn.Release()
	}
	return usable
}

// begin returns the opening under way, or a new one that is the caller's own; neither if there is a carrier that is not among
// tried, as one has just been opened.
func (c *Carriers) begin(key carrierKey, tried []*carrier) (under *opening, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groupOf(key)
	if g.opening != nil {
		return g.opening, false
	}
	for _, car := range g.carriers {
		if !slices.Contains(tried, car) {
			return nil, false
		}
	}
	g.opening = &opening{done: make(chan struct{})}
	return g.opening, true
}

// grow opens a carrier. Others get to use it once its streams can be counted. If it cannot be opened, those who
// wait fail with the same error, unless the fault is the ctx of the one who opened.
func (c *Carriers) grow(ctx context.Context, key carrierKey, under *opening, open func() (*carrier, error)) (*carrier, error) {
	car, err := open()
	if err != nil {
		c.opened(key, under, nil, err, ctx.Err() != nil)
		return nil, err
	}
	car.owner, car.key, car.tunnels = c, key, 1
	if !car.conn.Reserve() {
		err := car.unusable()
		c.opened(key, under, nil, err, false)
		_ = car.conn.Close()
		return nil, err
	}
	c.mu.Lock()
	g := c.groupOf(key)
	c.mu.Unlock()
	car.conn.Notify(func() {
		car.closeIfDrained()
		if car.conn.Err() != nil {
			c.retire(car)
		}
		g.slots.wake()
	})
	car.wire.whenSettled(func() { c.opened(key, under, car, nil, false) })
	return car, nil
}

// abandon ends the opening of a carrier that says nothing. Those who wait fail with err; nil: they open one themselves.
func (c *Carriers) abandon(car *carrier, err error) {
	c.mu.Lock()
	car.failed = err
	c.drop(car)
	c.mu.Unlock()
	car.wire.settle()
}

// opened ends an opening.
func (c *Carriers) opened(key carrierKey, under *opening, car *carrier, err error, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groupOf(key)
	g.opening = nil
	if car != nil && !car.retired {
		g.carriers = append(g.carriers, car)
	}
	if car != nil && car.failed != nil {
		err = car.failed
	}
	if !own {
		under.err = err
	}
	close(under.done)
	c.forget(key, g)
}

// forget drops a group that is of no use. c.mu is held.
func (c *Carriers) forget(key carrierKey, g *group) {
	if len(g.carriers) == 0 && g.opening == nil {
		delete(c.groups, key)
	}
}

// release ends a tunnel on car.
func (c *Carriers) release(car *carrier) {
	c.mu.Lock()
	car.tunnels--
	var over *carrier
	if car.tunnels == 0 {
		over = c.rest(car)
	}
	c.mu.Unlock()
	if over != nil {
		over.drain()
	}
}

// rest makes car, which has no tunnel, an idle one, and returns the carrier whose end that is, if it is one's: car
// that is not kept, or the one that was idle for longest. c.mu is held.
func (c *Carriers) rest(car *carrier) (over *carrier) {
	if c.private {
		c.drop(car)
	}
	if car.retired {
		return car
	}
	c.idle = append(c.idle, car)
	if timeout := c.idleTimeout(); timeout >= 0 {
		car.idle = time.AfterFunc(timeout, func() { c.expire(car) })
	}
	if most := c.maxIdle(); most >= 0 && len(c.idle) > most {
		over = c.idle[0]
		c.drop(over)
	}
	return over
}

func (c *Carriers) idleTimeout() time.Duration {
	if c.IdleTimeout == 0 {
		return DefaultIdleTimeout
	}
	return c.IdleTimeout
}

// http2 is the configuration of HTTP/2 to a proxy.
func (c *Carriers) http2() *h2c.Config {
	return &h2c.Config{
		MaxResponseHeader: maxHead,
		PingIdle:          max(0, cmp.Or(c.PingIdle, DefaultPingIdle)),
		PingTimeout:       cmp.Or(c.PingTimeout, DefaultPingTimeout),
	}
}

func (c *Carriers) maxIdle() int {
	if c.MaxIdle == 0 {
		return 1000
	}
	return c.MaxIdle
}

// wake takes car out of the idle ones. c.mu is held.
func (c *Carriers) wake(car *carrier) {
	if car.idle != nil {
		car.idle.Stop()
		car.idle = nil
	}
	c.idle = without(c.idle, car)
}

// retire gives car to nobody any more. It is closed with its last tunnel.
func (c *Carriers) retire(car *carrier) {
	c.mu.Lock()
	over := car.tunnels == 0 && !car.retired
	c.drop(car)
	c.mu.Unlock()
	if over {
		car.drain()
	}
}

// expire closes car if it is still idle.
func (c *Carriers) expire(car *carrier) {
	c.mu.Lock()
	over := car.tunnels == 0 && !car.retired
	if over {
		c.drop(car)
	}
	c.mu.Unlock()
	if over {
		car.drain()
	}
}

// drop takes car out of its group and the idle ones. c.mu is held.
func (c *Carriers) drop(car *carrier) {
	c.wake(car)
	car.retired = true
	if g := c.groups[car.key]; g != nil {
		g.carriers = without(g.carriers, car)
		c.forget(car.key, g)
	}
}

func without(carriers []*carrier, car *carrier) []*carrier {
	return slices.DeleteFunc(carriers, func(other *carrier) bool { return other == car })
}

// Close closes the connections that carry no tunnel, and lets the others end with their last one. A dial that comes
// after it works, but what it opens is closed with its tunnels.
func (c *Carriers) Close() {
	c.mu.Lock()
	c.private = true
	idle := slices.Clone(c.idle)
	for _, car := range idle {
		c.drop(car)
	}
	c.mu.Unlock()
	for _, car := range idle {
		car.drain()
	}
}

// broadcast wakes everyone who waits. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // closed and forgotten by wake
}

// wait returns what the next wake closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
