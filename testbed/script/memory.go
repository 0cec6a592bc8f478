package script

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// lingering is how long a closed conn in memory keeps what its reader has not taken.
const lingering = time.Minute

// memory is a conn in memory and its far end. A write of the near end waits for its reader. One of the far end does not, as
// with the buffers of sockets: two ends that write at the same time must not wait for each other.
func memory() (near, far net.Conn) {
	near, other := net.Pipe()
	b := &buffered{Conn: other, queue: make(chan []byte, 1024), gone: make(chan struct{}), closed: make(chan struct{})}
	go b.carry()
	return near, b
}

type buffered struct {
	net.Conn
	queue  chan []byte
	gone   chan struct{} // closed when the other side takes no more
	closed chan struct{}
	once   sync.Once
}

func (b *buffered) Write(p []byte) (int, error) {
	select {
	case <-b.gone:
		return 0, io.ErrClosedPipe
	case <-b.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	select {
	case b.queue <- bytes.Clone(p):
		return len(p), nil
	case <-b.gone:
	case <-b.closed:
	}
	return 0, io.ErrClosedPipe
}

// carry writes what is queued, and closes when all is written that was queued before Close.
func (b *buffered) carry() {
	defer b.Conn.Close()
	for {
		select {
		case p := <-b.queue:
			if _, err := b.Conn.Write(p); err != nil {
				close(b.gone)
				<-b.closed
				return
			}
		case <-b.closed:
			if len(b.queue) == 0 {
				return
			}
		}
	}
}

// Close ends the conn after what is queued.
func (b *buffered) Close() error {
	b.once.Do(func() {
		b.Conn.SetWriteDeadline(time.Now().Add(lingering))
		close(b.closed)
	})
	return nil
}
