package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// socketTimeout bounds a dial of the default Dialer.Dial.
const socketTimeout = 3 * time.Second

// Dialer connects through its hops. It may be used concurrently; its fields must not change meanwhile.
type Dialer struct {
	// Hops is the way, nearest first. It must not be empty: to go without a proxy it is the one hop Direct.
	Hops []Hop

	// Dial opens the sockets of this host: to the first hop, or to the target of a direct dial. What it returns
	// must obey deadlines. Nil: a net.Dialer that gives up after three seconds.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// PullBytes is the most bytes asked of the socket in one read, whatever lies above it.
	// Zero: [tlsuser.DefaultReadAhead].
	PullBytes int

	// Carriers holds connections to H2 proxies, so that tunnels share them. Nil: a tunnel's connection is its own
	// and closed with it.
	Carriers *Carriers

	// Trace is optionally told of each stage that succeeded, on the goroutine of the dial.
	Trace func(Event)
}

// Event is a stage of a dial that succeeded.
type Event struct {
	Hop      string // Hop.String
	Dialect  Dialect
	Stage    Stage
	Addr     string // what was reached: the hop or the direct target, in StageConnect what the hop was asked for
	Duration time.Duration
}

// DialContext connects to addr through the hops. network is "tcp", "tcp4" or "tcp6" with "host:port"; only the one
// hop Direct also takes "unix" with a path, and looks names up on this host.
//
// ctx bounds the dial only. The conn has CloseWrite, and is the caller's to close; on error there is none, and
// whatever was opened for it is closed. Errors are [*Error].
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	t := &trip{Dialer: d, target: addr}
	if err := t.validateHops(); err != nil {
		return nil, err
	}
	if network == "unix" && d.Hops[0].Dialect == Direct {
		return t.socket(ctx, &d.Hops[0], network, addr)
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, t.invalid(TargetInvalid, "", fmt.Errorf("a tunnel is TCP, not %q", network))
	}
	dest, err := parseTarget(addr)
	switch {
	case errors.Is(err, errTooLong):
		return nil, t.invalid(TargetTooLong, "", err)
	case err != nil:
		return nil, t.invalid(TargetInvalid, "", err)
	case d.Hops[0].Dialect == Direct:
		return t.socket(ctx, &d.Hops[0], network, dest.String())
	case dest.zoned:
		return nil, t.invalid(TargetInvalid, "", errZone)
	}
	return t.through(ctx, d.Hops, dest)
}

// trip is one dial.
type trip struct {
	*Dialer
	target string
}

func (t *trip) validateHops() error {
	if len(t.Hops) == 0 {
		return t.invalid(NoWay, "", errors.New("no hop is configured, and to go direct must be asked for"))
	}
	for i := range t.Hops {
		hop := &t.Hops[i]
		if hop.Dialect == Direct {
			if len(t.Hops) > 1 {
				return t.invalid(NoWay, hop.String(), errors.New("direct excludes any other hop"))
			}
			continue
		}
		if err := hop.validate(i == 0); err != nil {
			return t.invalid(HopInvalid, hop.String(), err)
		}
	}
	return nil
}

// through connects to dest by way of all hops.
func (t *trip) through(ctx context.Context, hops []Hop, dest target) (net.Conn, error) {
	hop := &hops[len(hops)-1]
	if hop.Dialect == H2 {
		return t.overCarrier(ctx, hops, dest)
	}
	conn, err := t.to(ctx, hops)
	if err != nil {
		return nil, err
	}
	ctx, cancel := hop.limit(ctx, 0)
	defer cancel()
	if hop.Dialect == HTTPS {
		if conn, err = t.secure(ctx, hop, conn); err != nil {
			return nil, err
		}
	}
	return t.open(ctx, hop, conn, dest)
}

// to connects to the last of hops by way of those before it.
func (t *trip) to(ctx context.Context, hops []Hop) (net.Conn, error) {
	before, hop := hops[:len(hops)-1], &hops[len(hops)-1]
	if len(before) == 0 {
		return t.socket(ctx, hop, hop.network(), hop.Addr)
	}
	dest, err := parseTarget(hop.Addr)
	if err != nil {
		return nil, t.invalid(HopInvalid, hop.String(), err)
	}
	return t.through(ctx, before, dest)
}

// socket opens a socket of this host, with the read ceiling on it.
func (t *trip) socket(ctx context.Context, hop *Hop, network, addr string) (net.Conn, error) {
	dial := t.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: socketTimeout}).DialContext
	}
	began := time.Now()
	conn, err := dial(ctx, network, addr)
	if ctx.Err() != nil {
		if err == nil {
			_ = conn.Close()
		}
		err = ctx.Err()
	}
	if err != nil {
		return nil, t.failed(StageDial, hop, addr, fail(dialCode(err, hop.Dialect == Direct), err))
	}
	t.trace(hop, StageDial, addr, began)
	return tlsuser.NewReadAhead(conn, t.PullBytes), nil
}

// textNoProtocol is crypto/tls's word for an alert that has no value of its own: the peer takes none of the protocols offered.
const textNoProtocol = "tls: no application protocol"

var errNotHTTP1 = errors.New("it does not take HTTP/1.1: write h2://")

// secure does TLS to hop over conn, which is closed on error.
func (t *trip) secure(ctx context.Context, hop *Hop, conn net.Conn) (net.Conn, error) {
	began := time.Now()
	tconn, err := tlsuser.Client(ctx, conn, hop.tls())
	if err != nil {
		code := proxyTLS + Code(tlsuser.CodeOf(err))
		switch {
		case tlsuser.CodeOf(err) == tlsuser.Cancelled:
			code = DialCancelled
		case strings.Contains(err.Error(), textNoProtocol):
			code, err = ProxyProtocolError, errNotHTTP1
			if hop.Dialect == H2 {
				err = errNotHTTP2
			}
		}
		return nil, t.failed(StageTLS, hop, hop.Addr, fail(code, err))
	}
	proto := tconn.ConnectionState().NegotiatedProtocol
	switch {
	case hop.Dialect == H2 && proto != "h2":
		err = errNotHTTP2
	case hop.Dialect == HTTPS && proto == "h2":
		err = errors.New("it was offered HTTP/2 and took it: write h2://")
	}
	if err != nil {
		_ = tconn.Close()
		return nil, t.failed(StageTLS, hop, hop.Addr, fail(ProxyProtocolError, err))
	}
	t.trace(hop, StageTLS, hop.Addr, began)
	return tconn, nil
}

// open asks hop, at the other end of conn, for a tunnel to dest. conn is closed on error.
func (t *trip) open(ctx context.Context, hop *Hop, conn net.Conn, dest target) (net.Conn, error) {
	began := time.Now()
	var behind []byte
	err := during(ctx, conn, func() (err error) {
		if hop.Dialect == SOCKS5 {
			return askSOCKS(conn, hop.Auth, dest)
		}
		behind, err = askHTTP(conn, hop, dest)
		return err
	})
	if err != nil {
		_ = conn.Close()
		return nil, t.failed(StageConnect, hop, dest.String(), err)
	}
	t.trace(hop, StageConnect, dest.String(), began)
	if len(behind) > 0 {
		conn = newPrefixConn(conn, behind)
	}
	return conn, nil
}

func (t *trip) trace(hop *Hop, stage Stage, addr string, began time.Time) {
	if t.Trace != nil {
		t.Trace(Event{Hop: hop.String(), Dialect: hop.Dialect, Stage: stage, Addr: addr, Duration: time.Since(began)})
	}
}

func (t *trip) invalid(code Code, hop string, err error) *Error {
	return &Error{Stage: StageConfig, Code: code, Hop: hop, Target: t.target, Err: err}
}

// failed says where err happened. An error without a code is one of the connection.
func (t *trip) failed(stage Stage, hop *Hop, addr string, err error) *Error {
	if stage == StageConnect && hop.usesTLS() && tlsuser.CodeOf(err) == tlsuser.ClientCertRefused {
		// With TLS 1.3 the refusal comes after our side of the handshake is done.
		refused := &tlsuser.Error{Code: tlsuser.ClientCertRefused, Err: err}
		stage, addr, err = StageTLS, hop.Addr, fail(proxyTLS+Code(refused.Code), refused)
	}
	e := &Error{Stage: stage, Hop: hop.String(), Addr: addr, Target: t.target}
	if f, ok := errors.AsType[*failure](err); ok {
		e.Code, e.Status, e.Reply, e.Err = f.code, f.status, f.reply, f.err
		return e
	}
	e.Code, e.Err = connectCode(err, ProxyClosed), err
	return e
}
