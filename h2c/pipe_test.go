package h2c

import "net"

// pipe is an in-memory conn whose far end never blocks in Write, as one with socket buffers would not.
func pipe() (near, far net.Conn) {
	near, other := net.Pipe()
	b := &buffered{Conn: other, queue: make(chan []byte, 1024)}
	go b.carry()
	return near, b
}

type buffered struct {
	net.Conn
	queue chan []byte
}

func (b *buffered) Write(p []byte) (int, error) {
	b.queue <- append([]byte(nil), p...)
	return len(p), nil
}

func (b *buffered) carry() {
	defer b.Conn.Close()
	for p := range b.queue {
		b.Conn.Write(p)
	}
}

// Close ends the conn after what is queued. Nothing may be written any more.
func (b *buffered) Close() error {
	close(b.queue)
	return nil
}
