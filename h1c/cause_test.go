package h1c

import (
	"errors"
	"net"
	"testing"
)

var errAlert = errors.New("remote error: tls: certificate required")

// dying is a conn whose peer has said its last word.
type dying struct{ net.Conn }

func (dying) Read([]byte) (int, error) { return 0, errAlert }

func TestCauseOfDeath(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c, err := New(dying{near}, nil)
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
}
