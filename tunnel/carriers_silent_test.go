package tunnel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// silenceLimit is the hop's limit.
const silenceLimit = 3 * time.Second

// TestSilentCarrier has an h2 proxy that completes TLS and then says nothing, while several want tunnels through it.
func TestSilentCarrier(t *testing.T) {
	t.Run("C12_those_who_wait_fail_with_it", func(t *testing.T) {
		withSilent(t, func(t *testing.T, d *Dialer) {
			began := time.Now()
			opener := dialLater(t.Context(), d, "a.test:1")
			synctest.Wait()
			waiters := []<-chan dialed{dialLater(t.Context(), d, "b.test:1"), dialLater(t.Context(), d, "c.test:1")}
			for _, ch := range append(waiters, opener) {
				if e := wantCode(t, (<-ch).err, ProxyTunnelTimeout); !e.Timeout() {
					t.Errorf("%v is no timeout", e)
				}
			}
			if took := time.Since(began); took != silenceLimit {
				t.Errorf("took %v, want %v", took, silenceLimit)
			}
		})
	})
	t.Run("V14_the_next_one_waits_no_longer", func(t *testing.T) {
		withSilent(t, func(t *testing.T, d *Dialer) {
			for range 3 {
				began := time.Now()
				_, err := d.DialContext(t.Context(), "tcp", "a.test:1")
				wantCode(t, err, ProxyTunnelTimeout)
				if took := time.Since(began); took != silenceLimit {
					t.Errorf("took %v, want %v", took, silenceLimit)
				}
			}
		})
	})
	t.Run("C12_those_who_wait_for_a_cancelled_one_go_on", func(t *testing.T) {
		withSilent(t, func(t *testing.T, d *Dialer) {
			ctx, cancel := context.WithCancel(t.Context())
			opener := dialLater(ctx, d, "a.test:1")
			synctest.Wait()
			waiter := dialLater(t.Context(), d, "b.test:1")
			synctest.Wait()
			cancel()
			began := time.Now()
			if err := (<-opener).err; !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled one: %v", err)
			}
			wantCode(t, (<-waiter).err, ProxyTunnelTimeout)
			if took := time.Since(began); took != silenceLimit {
				t.Errorf("the other took %v, want %v", took, silenceLimit)
			}
		})
	})
}

// withSilent runs f with a dialer of that proxy, and wants no socket left behind.
func withSilent(t *testing.T, f func(*testing.T, *Dialer)) {
	synctest.Test(t, func(t *testing.T) {
		hop, sockets := scriptHop(H2), new(sockets)
		hop.Timeout = silenceLimit
		sockets.by = script.Config{TLS: scriptTLS(t)}.Dialer(t, "tls h2\n-> rest")
		d := &Dialer{Hops: []Hop{hop}, Dial: sockets.dial, Carriers: new(Carriers)}
		f(t, d)
		<-time.After(time.Minute)
		d.Carriers.Close()
		synctest.Wait()
		if n := sockets.open.Load(); n != 0 {
			t.Errorf("%d sockets are open", n)
		}
	})
}
