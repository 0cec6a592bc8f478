package h1c

import (
	"bytes"
	"errors"
	"io"
	"net"
)

// input is what was read of the conn and not used yet. It belongs to the goroutine that reads the response.
type input struct {
	w     *wire
	ahead readAhead // of the conn; nil: it cannot be told what is in memory
	size  int       // of the buffer, in bytes

	lent     *[]byte // from the pool; nil while idle
	buf      []byte  // holds the bytes from start to end
	start    int
	end      int
	err      error // of the conn, once it has failed
	unwanted bool  // more came than the response has
}

// readAhead is a conn beneath crypto/tls, or in its place, that reads ahead of what it is asked for.
type readAhead interface {
	// Gather makes a Read that finds nothing in memory return an error whose Temporary() is true.
	Gather(on bool)
	// Fill reads once from the conn beneath.
	Fill() error
}

func (in *input) buffered() int { return in.end - in.start }

// bytes are those that were read and not used.
func (in *input) bytes() []byte { return in.buf[in.start:in.end] }

// release gives the buffer back. What is in it is lost.
func (in *input) release() {
	if in.lent != nil {
		giveBuffer(in.lent)
	}
	in.lent, in.buf, in.start, in.end = nil, nil, 0, 0
}

// fill reads once from the conn into the buffer. Without wait it asks for what is in memory only, and gives 0, nil if
// nothing is.
func (in *input) fill(wait bool) (int, error) {
	switch {
	case in.buf == nil:
		in.lent = takeBuffer(in.size)
		in.buf = (*in.lent)[:in.size]
	case in.start == in.end:
		in.start, in.end = 0, 0
	case in.end == len(in.buf) && in.start > 0:
		in.end = copy(in.buf, in.bytes())
		in.start = 0
	case in.end == len(in.buf):
		in.grow()
	}
	n, err := in.readConn(in.buf[in.end:], wait)
	in.end += n
	return n, err
}

// grow doubles the buffer. The larger one is not shared.
func (in *input) grow() {
	buf := make([]byte, 2*len(in.buf))
	end := copy(buf, in.bytes())
	in.release()
	in.buf, in.end = buf, end
}

// readConn reads from the conn. Its error comes after all bytes, and stays.
func (in *input) readConn(p []byte, wait bool) (n int, err error) {
	if in.err != nil {
		return 0, in.err
	}
	if wait {
		for range 100 {
			if n, err = in.w.Read(p); n > 0 || err != nil {
				break
			}
		}
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
	} else {
		n, err = in.gather(p)
	}
	if in.err = err; n > 0 {
		err = nil
	}
	return n, err
}

// gather is a Read of what is in memory.
func (in *input) gather(p []byte) (int, error) {
	if in.ahead == nil {
		return 0, nil
	}
	in.ahead.Gather(true)
	n, err := in.w.Conn.Read(p)
	in.ahead.Gather(false)
	in.w.read += int64(n)
	if isTemporary(err) {
		err = nil
	}
	return n, err
}

// isTemporary tells the error of a conn that had nothing in memory.
func isTemporary(err error) bool {
	if err == nil {
		return false
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Temporary()
}

// take gives bytes from the buffer, else from one read of the conn.
func (in *input) take(p []byte, wait bool) (int, error) {
	if in.start == in.end {
		if in.buf != nil && len(p) >= len(in.buf) {
			return in.readConn(p, wait)
		}
		if n, err := in.fill(wait); n == 0 {
			return 0, err
		}
	}
	n := copy(p, in.bytes())
	in.start += n
	return n, nil
}

// read waits for the first byte, and goes on with what is in memory as long as it has less than want.
func (in *input) read(p []byte, want int) (int, error) {
	n, err := in.take(p, true)
	for err == nil && n < want {
		m, err := in.take(p[n:], false)
		if m == 0 || err != nil {
			break // an error stays for the next read
		}
		n += m
	}
	return n, err
}

// line gives the next line up to its LF, at most as long as limit. It is good until the next use of in. Without wait it
// gives nil, nil where the line is not in memory.
func (in *input) line(limit int, wait bool) ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(in.bytes()[seen:], '\n'); i >= 0 {
			line := in.bytes()[:seen+i+1]
			if len(line) > limit {
				return nil, errLineTooLong
			}
			in.start += len(line)
			return line, nil
		}
		if seen = in.buffered(); seen >= limit {
			return nil, errLineTooLong
		}
		if n, err := in.fill(wait); n == 0 {
			return nil, unexpected(err)
		}
	}
}

// unexpected is err where the end of the conn is not the end of a message.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// head gives the next bytes up to and with an empty line. They are good until the next use of in. Bytes that do not
// begin with prefix are not waited for. Without a byte it gives the conn's error as it is.
func (in *input) head(prefix string, limit int64) ([]byte, error) {
	for seen := 0; ; {
		b := in.bytes()
		if n := min(len(b), len(prefix)); string(b[:n]) != prefix[:n] {
			return nil, malformed("HTTP response")
		}
		end, looked := headEnd(b, seen)
		switch {
		case int64(end) > limit, end == 0 && int64(len(b)) >= limit:
			return nil, errHeadTooLarge
		case end > 0:
			in.start += end
			return b[:end], nil
		}
		seen = looked
		if n, err := in.fill(true); n == 0 {
			if len(b) > 0 {
				err = unexpected(err)
			}
			return nil, err
		}
	}
}

// headEnd finds the end of the first empty line of b that is not its first line; 0: it is not there. Where a former
// call has looked, it begins with that one's next.
func headEnd(b []byte, from int) (end, next int) {
	for next = from; ; {
		i := bytes.IndexByte(b[next:], '\n')
		if i < 0 {
			return 0, len(b)
		}
		lf := next + i
		switch rest := b[lf+1:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return lf + 2, 0
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return lf + 3, 0
		case len(rest) == 0, len(rest) == 1 && rest[0] == '\r':
			return 0, lf
		}
		next = lf + 1
	}
}
