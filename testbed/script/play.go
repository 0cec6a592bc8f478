package script

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A player plays one script on one connection.
type player struct {
	config Config
	done   <-chan struct{}
	socket net.Conn
	conn   net.Conn // the socket, or TLS over it
	in     *bufio.Reader
	frames *frames // from the first frame on
	record *recorder

	mu  sync.Mutex
	got []byte
}

func newPlayer(socket net.Conn, c Config, done <-chan struct{}) *player {
	p := &player{config: c, done: done, socket: socket}
	p.over(socket)
	return p
}

// over makes conn what the following steps play on.
func (p *player) over(conn net.Conn) {
	p.conn = conn
	p.record = &recorder{Conn: conn, p: p}
	p.in = bufio.NewReader(p.record)
}

// A recorder notes what is read, unless it is off.
type recorder struct {
	net.Conn
	p   *player
	off bool
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	if r.off {
		return n, err
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.got = append(r.p.got, b[:n]...)
	return n, err
}

// stop notes no more, and forgets the last bytes.
func (r *recorder) stop(last int) {
	r.off = true
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.got = r.p.got[:len(r.p.got)-last]
}

func (p *player) heard() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.got)
}

// play plays the steps in turn and closes the connection.
func (p *player) play(steps []*step) error {
	defer p.socket.Close()
	for _, s := range steps {
		if err := s.play(p); err != nil {
			return &departure{s, err}
		}
	}
	return p.close()
}

// hear compiles what stands behind "->".
func hear(args []token) (play func(*player) error, holds bool, err error) {
	if len(args) == 0 {
		return nil, false, errors.New("wants what is to come")
	}
	if frame, ok := frameNames[args[0].word]; ok && !args[0].quoted {
		play, err = hearFrame(frame, args[1:])
		return play, false, err
	}
	switch first := args[0]; {
	case first.quoted:
	case first.word == "head":
		return func(p *player) error { return p.head(words(args[1:])) }, false, nil
	case first.word == "eof" && len(args) == 1:
		return (*player).untilEOF, true, nil
	case first.word == "rest" && len(args) == 1:
		return (*player).untilClosed, true, nil
	case first.word == "unanswered" && len(args) == 1:
		return (*player).unanswered, true, nil
	case len(args) == 2 && args[1].word == "bytes" && !args[1].quoted:
		var n int64
		if _, err := fmt.Sscanf(first.word, "%d", &n); err != nil {
			return nil, false, err
		}
		return func(p *player) error { return p.skip(n) }, false, nil
	}
	want, err := items(args)
	return func(p *player) error { return p.expect(want) }, false, err
}

// say compiles what stands behind "<-".
func say(args []token) (play func(*player) error, holds bool, err error) {
	if len(args) == 0 {
		return nil, false, errors.New("wants what to send")
	}
	if frame, ok := frameNames[args[0].word]; ok && !args[0].quoted {
		play, err = sayFrame(frame, args[1:])
		return play, false, err
	}
	switch first := args[0]; {
	case first.quoted:
	case first.word == "dribble":
		b, err := items(args[1:])
		return func(p *player) error { return p.dribble(b) }, false, err
	case first.word == "forever":
		b, err := items(args[1:])
		if len(b) == 0 {
			err = errors.Join(err, errors.New("wants what to repeat"))
		}
		return func(p *player) error { return p.forever(b) }, true, err
	}
	b, err := items(args)
	return func(p *player) error { return p.write(b) }, false, err
}

func (p *player) expect(want []byte) error {
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.in, got)
	if !bytes.Equal(got[:n], want[:n]) {
		return fmt.Errorf("got %q", got[:n])
	}
	if err != nil {
		return fmt.Errorf("got only %q: %w", got[:n], err)
	}
	return nil
}

func (p *player) head(texts []string) error {
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		line, err := p.in.ReadSlice('\n')
		head = append(head, line...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("got only %q: %w", head, err)
		}
	}
	for _, text := range texts {
		if !bytes.Contains(head, []byte(text)) {
			return fmt.Errorf("no %q in %q", text, head)
		}
	}
	return nil
}

func (p *player) skip(n int64) error {
	_, err := io.CopyN(io.Discard, p.in, n)
	return err
}

// untilEOF wants nothing but the other side's end. With HTTP/2 there may be frames that keep the connection, and GOAWAY.
func (p *player) untilEOF() error {
	if p.frames != nil {
		return p.drainFrames(func(f frame) error {
			if f.name() == "GOAWAY" {
				return nil
			}
			return fmt.Errorf("got %s", f)
		})
	}
	b, err := p.in.Peek(1)
	if len(b) > 0 {
		b, _ = p.in.Peek(p.in.Buffered())
		return fmt.Errorf("got %q", b)
	}
	return ended(err)
}

func (p *player) untilClosed() error {
	if p.frames != nil {
		return p.drainFrames(func(frame) error { return nil })
	}
	return p.unanswered()
}

// unanswered leaves even PING without an answer.
func (p *player) unanswered() error {
	_, err := io.Copy(io.Discard, p.in)
	return ended(err)
}

// ended is nil if err means that the other side has closed, in whatever way, and this one has not.
func ended(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func (p *player) write(b []byte) error {
	_, err := p.conn.Write(b)
	return err
}

func (p *player) dribble(b []byte) error {
	for i := range b {
		if err := p.write(b[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) forever(b []byte) error {
	for {
		if err := p.write(b); err != nil {
			select {
			case <-p.done:
				return err
			default:
				return nil
			}
		}
	}
}

func (p *player) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.done:
		return errors.New("the test ended")
	}
}

func (p *player) quiet(d time.Duration) error {
	p.conn.SetReadDeadline(time.Now().Add(d))
	defer p.conn.SetReadDeadline(time.Time{})
	b, err := p.in.Peek(1)
	if len(b) > 0 {
		b, _ = p.in.Peek(p.in.Buffered())
		return fmt.Errorf("got %q", b)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the other side has closed: %w", err)
	}
	return nil
}

func handshake(alpn []string) func(*player) error {
	return func(p *player) error {
		if p.config.TLS == nil {
			return errors.New("needs Config.TLS")
		}
		config := p.config.TLS.Clone()
		if len(alpn) > 0 {
			config.NextProtos = alpn
		}
		p.record.stop(p.in.Buffered())
		conn := tls.Server(&unread{p.conn, p.in}, config)
		if err := conn.Handshake(); err != nil {
			return err
		}
		p.over(conn)
		return nil
	}
}

// unread is a conn of which a reader has read ahead.
type unread struct {
	net.Conn
	in *bufio.Reader
}

func (u *unread) Read(b []byte) (int, error) { return u.in.Read(b) }

// eof half-closes: within TLS by its goodbye, which is the end for the reader of the other side.
func (p *player) eof() error {
	half, ok := p.conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection has no half-close")
	}
	return half.CloseWrite()
}

func (p *player) close() error {
	p.conn.Close()
	return nil
}

func (p *player) cut() error {
	p.socket.Close()
	return nil
}

func (p *player) reset() error {
	if tcp, ok := p.socket.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			return err
		}
	}
	return p.cut()
}
