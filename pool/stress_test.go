package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStress drives every operation at random. The farm checks that connections are used as a Conn allows and never
// by two identities, verify that the books agree, and each response that it belongs to its request.
func TestStress(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, limit := range []int{0, 1, 3} {
			t.Run(fmt.Sprintf("shared=%v,limit=%d", shared, limit), func(t *testing.T) {
				t.Parallel()
				stress(t, shared, limit)
			})
		}
	}
}

func stress(t *testing.T, shared bool, limit int) {
	p := New(Options{
		MaxConnsPerHost: limit,
		MaxIdle:         4,
		MaxIdlePerHost:  2,
		MaxIdentities:   3,
		IdleTimeout:     2 * time.Millisecond,
		ReplayBytes:     64,
	})
	f := &farm{t: t, shared: shared, slots: 3}
	if !shared {
		f.slots = 1
	}
	f.serve = func(c *fakeConn, req *http.Request) (*http.Response, error) {
		var body []byte
		if req.Body != nil {
			if rand.IntN(8) == 0 { // fails half way
				io.ReadFull(req.Body, make([]byte, rand.IntN(20)))
				req.Body.Close()
				c.die()
				return nil, failure{unprocessed: rand.IntN(2) == 0, unanswered: true}
			}
			body, _ = io.ReadAll(req.Body)
			req.Body.Close()
		}
		switch rand.IntN(20) {
		case 0:
			c.die()
			return nil, failure{unprocessed: rand.IntN(2) == 0, unanswered: true}
		case 1:
			return nil, failure{unprocessed: true, unanswered: true, refused: true}
		case 2:
			defer c.die()
		}
		return answer(req.Header.Get("X-Request") + " " + string(body)), nil
	}
	var requests, answers, failures atomic.Int64
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for n := range 150 {
				id := ident(byte(rand.IntN(4)), string(rune('a'+rand.IntN(2))))
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(5) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(500))*time.Microsecond, cancel)
				}
				requests.Add(1)
				answered, err := strain(ctx, t, p, f, id, fmt.Sprintf("%d-%d", worker, n))
				cancel()
				if answered {
					answers.Add(1)
				} else {
					failures.Add(1)
					if _, ok := errors.AsType[*Error](err); !ok {
						t.Errorf("%T %v", err, err)
					}
				}
				if n%10 == 0 {
					verify(t, p, false)
				}
			}
		})
	}
	wg.Wait()
	p.Close()
	for deadline := time.NewTimer(10 * time.Second); f.open() > 0; {
		select {
		case <-deadline.C:
			t.Fatalf("%d connections are open", f.open())
		case <-time.After(time.Millisecond):
		}
	}
	verify(t, p, true)
	if len(p.ids) > 0 || len(p.hosts) > 0 || p.idle.Len() > 0 {
		t.Errorf("after Close: %d identities, %d hosts, %d idle", len(p.ids), len(p.hosts), p.idle.Len())
	}
	if answers.Load() < requests.Load()/2 {
		t.Errorf("%d requests, %d answers, %d failures", requests.Load(), answers.Load(), failures.Load())
	}
}

// strain does one request in one of the ways a caller may.
func strain(ctx context.Context, t *testing.T, p *Pool, f *farm, id Identity, name string) (bool, error) {
	var body io.Reader
	text, method := "", "GET"
	if rand.IntN(2) == 0 {
		method, text = "POST", strings.Repeat(name, 1+rand.IntN(20))
		body = strings.NewReader(text)
	}
	req := request(ctx, id, method, body)
	req.Header.Set("X-Request", name)
	res, err := p.RoundTrip(req, id, func(ctx context.Context, _ *Memory) (Conn, error) {
		if rand.IntN(3) == 0 {
			select {
			case <-time.After(time.Duration(rand.IntN(300)) * time.Microsecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if rand.IntN(10) == 0 {
			return nil, errors.New("refused")
		}
		return f.make(id), nil
	}, nil)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if rand.IntN(8) == 0 {
		return true, nil // unread
	}
	got, err := io.ReadAll(res.Body)
	if err != nil || string(got) != name+" "+text {
		t.Errorf("request %s got the answer %.40q, %v", name, got, err)
	}
	return true, nil
}
