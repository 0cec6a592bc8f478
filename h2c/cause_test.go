package h2c

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
)

var errAlert = errors.New("remote error: tls: certificate required")

// dying is a conn whose peer has said its last word.
type dying struct {
	net.Conn
	write error // what a write comes to
}

func (d *dying) Read([]byte) (int, error)    { return 0, errAlert }
func (d *dying) Write(p []byte) (int, error) { return len(p), d.write }

func TestCauseOfDeath(t *testing.T) {
	t.Run("in_the_preface", func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		if _, err := New(context.Background(), &dying{near, syscall.EPIPE}, nil); !errors.Is(err, errAlert) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("before_a_request", func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c, err := New(context.Background(), &dying{near, nil}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		died := make(chan struct{}, 1)
		c.Notify(func() {
			select {
			case died <- struct{}{}:
			default:
			}
		})
		<-died
		if err := c.Err(); !errors.Is(err, ErrClosed) || !errors.Is(err, errAlert) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("in_a_request", func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c, err := New(context.Background(), &late{Conn: near, failed: make(chan struct{})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !c.Reserve() {
			t.Fatal("no slot")
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://origin.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RoundTrip(req); !errors.Is(err, errAlert) {
			t.Errorf("error = %v", err)
		}
	})
}

// late is a conn whose peer says its last word once a write behind the preface has failed.
type late struct {
	net.Conn
	writes int
	failed chan struct{}
}

func (l *late) Read([]byte) (int, error) {
	<-l.failed
	return 0, errAlert
}

func (l *late) Write(p []byte) (int, error) {
	if l.writes++; l.writes == 1 {
		return len(p), nil
	}
	if l.writes == 2 {
		close(l.failed)
	}
	return 0, syscall.EPIPE
}
