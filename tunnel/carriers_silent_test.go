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

// TestCarrierPing has an h2 proxy that opens a tunnel and whose packets then go nowhere.
func TestCarrierPing(t *testing.T) {
	for name, tt := range map[string]struct {
		idle, timeout time.Duration
		dead          time.Duration // 0: it is not found
	}{
		"H08_by_default": {0, 0, DefaultPingIdle + DefaultPingTimeout},
		"H08_configured": {3 * time.Second, time.Second, 4 * time.Second},
		"H08_off":        {-1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opens := scriptBegins(H2, "origin.test:443") + "<- HEADERS 1 :status=200\n"
				d := &Dialer{Hops: []Hop{scriptHop(H2)}, Carriers: &Carriers{PingIdle: tt.idle, PingTimeout: tt.timeout}}
				d.Dial = script.Config{TLS: scriptTLS(t)}.Dialer(t, opens+"-> unanswered", opens+"-> rest")
				conn, err := d.DialContext(t.Context(), "tcp", "origin.test:443")
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if tt.dead == 0 {
					time.AfterFunc(time.Hour, func() { conn.Close() })
				}
				if n, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("read %d bytes", n)
				}
				if took := time.Since(began); tt.dead != 0 && took != tt.dead || tt.dead == 0 && took != time.Hour {
					t.Errorf("failed after %v, want %v", took, tt.dead)
				}
				conn.Close()
				if tt.dead != 0 {
					fresh, err := d.DialContext(t.Context(), "tcp", "origin.test:443")
					if err != nil {
						t.Fatal(err)
					}
					fresh.Close()
				}
				d.Carriers.Close()
				<-time.After(time.Minute)
			})
		})
	}
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
