package pool

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
)

// TestHTTP11RequiredDuringDial has connections of HTTP/2 on their way when it becomes known that HTTP/1.1 is required.
func TestHTTP11RequiredDuringDial(t *testing.T) {
	t.Run("H07_known_during_dial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, f := New(Options{}), &farm{t: t, shared: true, slots: 100}
			defer p.Close()
			id := ident(1, "a")
			id.HTTP11 = true
			f.serve = func(c *fakeConn, req *http.Request) (*http.Response, error) {
				if c.n == 0 {
					return nil, failure{unprocessed: true, unanswered: true, http11: true}
				}
				return answer("ok"), nil
			}
			dialed, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				res, err := p.RoundTrip(request(t.Context(), id, "GET", nil), id, func(context.Context, *Memory) (Conn, error) {
					<-dialed
					return f.make(id), nil
				}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				finish(t, res)
			}()
			synctest.Wait()
			fetch(t, p, f, id)
			close(dialed)
			<-done
			p.mu.Lock()
			shared := len(p.ids[id].shared)
			p.mu.Unlock()
			if shared != 0 || f.open() != 0 {
				t.Errorf("%d shared connections are kept, %d are open", shared, f.open())
			}
			verify(t, p, true)
		})
	})
}
