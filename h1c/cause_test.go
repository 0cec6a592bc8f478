package h1c

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

var errAlert = errors.New("remote error: tls: certificate required")

// dying is a conn whose peer has said its last word.
type dying struct{ net.Conn }

func (dying) Read([]byte) (int, error)                 { return 0, errAlert }
func (dying) Write(p []byte) (int, error)              { return len(p), nil }
func (dying) ConnectionState() (s tls.ConnectionState) { return s }

func TestCauseOfDeath(t *testing.T) {
	open := func() *Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		c, err := New(dying{near}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	check := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, ErrClosed) || !errors.Is(err, errAlert) {
			t.Errorf("error = %v", err)
		}
	}
	t.Run("of_a_request", func(t *testing.T) {
		c := open()
		reserve(t, c)
		_, err := c.RoundTrip(get(t, "/"))
		if !errors.Is(err, errAlert) {
			t.Errorf("error = %v", err)
		}
		check(t, c.Err())
	})
	t.Run("while_idle", func(t *testing.T) {
		c := open()
		reserve(t, c)
		c.Release()
		if c.Reserve() {
			t.Fatal("a slot")
		}
		check(t, c.Err())
		_, err := c.RoundTrip(get(t, "/"))
		check(t, err)
	})
}
