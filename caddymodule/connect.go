package caddymodule

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddytunnel/caddytunnel/h1c"
	"github.com/caddytunnel/caddytunnel/h2c"
	"github.com/caddytunnel/caddytunnel/pool"
	"github.com/caddytunnel/caddytunnel/tlsuser"
	"github.com/caddytunnel/caddytunnel/tunnel"
)

// connect opens a connection that meets n: the tunnel, the PROXY protocol header, TLS to the origin, HTTP. ctx bounds
// the opening only; the connection is the caller's.
func (t *Transport) connect(ctx context.Context, n *need, memory *pool.Memory) (pool.Conn, error) {
	start := time.Now()
	var stages stageTimes
	hops := make([]tunnel.Hop, len(n.hops))
	copy(hops, n.hops)
	for i := range hops {
		if hops[i].TLS != nil {
			cfg := *hops[i].TLS
			cfg.Sessions = memory.Sessions("hop " + strconv.Itoa(i))
			hops[i].TLS = &cfg
		}
	}
	d := tunnel.Dialer{
		Hops:      hops,
		Dial:      t.dial,
		PullBytes: t.PullBytes,
		Carriers:  t.carriers,
		Trace:     stages.add,
	}
	conn, err := d.DialContext(ctx, orTCP(n.network), n.addr)
	if err != nil {
		return nil, err
	}
	if err := writeProxyHeader(ctx, conn, n.proxyHeader); err != nil {
		conn.Close()
		return nil, err
	}
	proto := "http/1.1"
	resumed := false
	if n.tls != nil {
		tlsStart := time.Now()
		cfg := *n.tls
		cfg.Sessions = memory.Sessions("origin")
		if memory.HTTP11Required() {
			cfg.NextProtos = []string{"http/1.1"}
		}
		tc, err := tlsuser.Client(ctx, conn, &cfg)
		if err != nil {
			return nil, err
		}
		state := tc.ConnectionState()
		if state.NegotiatedProtocol != "" {
			proto = state.NegotiatedProtocol
		}
		resumed = state.DidResume
		stages.add(tunnel.Event{Stage: "origin_tls", Duration: time.Since(tlsStart)})
		conn = tc
	} else if n.h2c && !memory.HTTP11Required() {
		proto = "h2c"
	}
	hc, err := t.speak(ctx, conn, proto, n.pingIdle)
	if err != nil {
		return nil, err
	}
	if c := t.logger.Check(zap.DebugLevel, "tunnel opened"); c != nil {
		c.Write(
			zap.String("via", n.hopNames()),
			zap.String("target", n.addr),
			zap.String("protocol", proto),
			zap.Bool("resumed", resumed),
			zap.Duration("duration", time.Since(start)),
			zap.Array("stages", stages))
	}
	return hc, nil
}

// speak starts HTTP on conn, which is closed on error.
func (t *Transport) speak(ctx context.Context, conn net.Conn, proto string, pingIdle time.Duration) (pool.Conn, error) {
	if proto == "h2" || proto == "h2c" {
		hc, err := h2c.New(ctx, conn, &h2c.Config{
			MaxResponseHeader:     t.MaxResponseHeaderSize,
			ResponseHeaderTimeout: time.Duration(t.ResponseHeaderTimeout),
			ExpectContinueTimeout: time.Duration(t.ExpectContinueTimeout),
			ReadTimeout:           time.Duration(t.ReadTimeout),
			WriteTimeout:          time.Duration(t.WriteTimeout),
			PingIdle:              max(0, pingIdle),
			PingTimeout:           t.Ping.timeout(),
		})
		if err != nil {
			return nil, err
		}
		return hc, nil
	}
	hc, err := h1c.New(conn, &h1c.Config{
		MaxResponseHeader:     t.MaxResponseHeaderSize,
		WriteBuffer:           t.WriteBufferSize,
		ResponseHeaderTimeout: time.Duration(t.ResponseHeaderTimeout),
		ExpectContinueTimeout: time.Duration(t.ExpectContinueTimeout),
		ReadTimeout:           time.Duration(t.ReadTimeout),
		WriteTimeout:          time.Duration(t.WriteTimeout),
	})
	if err != nil {
		return nil, err
	}
	return hc, nil
}

// writeProxyHeader writes the PROXY protocol header, the first bytes inside the tunnel.
func writeProxyHeader(ctx context.Context, conn net.Conn, header []byte) error {
	if len(header) == 0 {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	_, err := conn.Write(header)
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// stageTimes is what each stage of an opening took, for the log.
type stageTimes []tunnel.Event

func (s *stageTimes) add(e tunnel.Event) { *s = append(*s, e) }

// MarshalLogArray implements zapcore.ArrayMarshaler.
func (s stageTimes) MarshalLogArray(enc zapcore.ArrayEncoder) error {
	for _, e := range s {
		what := string(e.Stage)
		if e.Hop != "" {
			what = e.Hop + " " + what
		}
		enc.AppendString(what + " " + e.Duration.Round(time.Microsecond).String())
	}
	return nil
}

func orTCP(network string) string {
	if network == "" {
		return "tcp"
	}
	return network
}
