package pool

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

// TestClosing closes connections whose Close itself uses the pool, for every reason that there is to close one.
func TestClosing(t *testing.T) {
	a, b := ident(1, "a"), ident(2, "a")
	for name, test := range map[string]struct {
		opt Options
		act func(t *testing.T, p *Pool, f *farm)
	}{
		"idle_when_the_pool_closes": {Options{}, func(t *testing.T, p *Pool, f *farm) {
			fetch(t, p, f, a)
			p.Close()
		}},
		"in_use_when_the_pool_closes": {Options{}, func(t *testing.T, p *Pool, f *farm) {
			res := start(t, p, f, a)
			p.Close()
			finish(t, res)
		}},
		"idle_for_too_long": {Options{IdleTimeout: time.Millisecond}, func(t *testing.T, p *Pool, f *farm) {
			fetch(t, p, f, a)
		}},
		"one_too_many": {Options{MaxIdle: -1}, func(t *testing.T, p *Pool, f *farm) {
			fetch(t, p, f, a)
		}},
		"in_the_way_of_another": {Options{MaxConnsPerHost: 1}, func(t *testing.T, p *Pool, f *farm) {
			fetch(t, p, f, a)
			fetch(t, p, f, b)
		}},
		"of_a_forgotten_identity": {Options{MaxIdentities: 1}, func(t *testing.T, p *Pool, f *farm) {
			fetch(t, p, f, a)
			fetch(t, p, f, b)
		}},
		"used_once": {Options{DisableKeepAlives: true}, func(t *testing.T, p *Pool, f *farm) {
			fetch(t, p, f, a)
		}},
		"dead": {Options{}, func(t *testing.T, p *Pool, f *farm) {
			fetch(t, p, f, a)
			f.conns[0].die()
		}},
		"failed": {Options{}, func(t *testing.T, p *Pool, f *farm) {
			f.serve = func(c *fakeConn, _ *http.Request) (*http.Response, error) {
				c.die()
				return nil, errors.New("cut")
			}
			if _, err := p.RoundTrip(request(t.Context(), a, "GET", nil), a, f.dialFor(a), nil); err == nil {
				t.Error("a response without one")
			}
		}},
	} {
		for kind, shared := range map[string]bool{"one_request_at_a_time": false, "shared": true} {
			t.Run("P09_"+name+"_"+kind, func(t *testing.T) {
				p, f, other := New(test.opt), &farm{t: t, shared: shared}, &farm{t: t}
				closed := make(chan struct{}, 2)
				f.closing = func() {
					fetch(t, p, other, ident(3, "other"))
					closed <- struct{}{}
				}
				over := make(chan struct{})
				go func() {
					defer close(over)
					test.act(t, p, f)
					<-closed
					p.Close()
				}()
				select {
				case <-over:
				case <-time.After(10 * time.Second):
					t.Fatal("it hangs")
				}
			})
		}
	}
}
