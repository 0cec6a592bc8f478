package h1c

import (
	"errors"
	"io"
	"net/http"
	"strconv"
)

const (
	maxChunkLine = 4096
	maxTrailer   = 64 << 10
	// A sender may spend chunkSpare bytes a chunk, and two for each byte of data, on what is not data, and maxChunkExcess
	// in all beyond that.
	chunkSpare     = 16
	maxChunkExcess = 16 << 10
)

// chunks decodes the chunked coding (RFC 9112 section 7.1).
type chunks struct {
	in     *input
	left   uint64 // of the chunk that is being read
	inside bool   // in a chunk, whose line end was not seen
	last   bool   // the last chunk was read
	excess int64
}

// read waits for the first bytes of data and goes on with what is in memory. io.EOF comes once the last chunk was read, the
// trailer section was not.
func (c *chunks) read(p []byte) (int, error) {
	n := 0
	for {
		wait := n == 0
		switch {
		case c.inside && c.left > 0:
			if n == len(p) {
				return n, nil
			}
			m, err := c.in.take(p[n:n+int(min(uint64(len(p)-n), c.left))], wait)
			n, c.left = n+m, c.left-uint64(m)
			if m == 0 {
				return n, unexpected(err)
			}
		case c.inside:
			line, err := c.in.line(len("\r\n"), wait)
			switch {
			case errors.Is(err, errLineTooLong), line != nil && string(line) != "\r\n":
				return n, errChunkEnd
			case line == nil:
				return n, err
			}
			c.inside = false
		default:
			line, err := c.in.line(maxChunkLine, wait)
			if line == nil {
				return n, err
			}
			if err := c.begin(line); err != nil {
				return n, err
			}
		}
	}
}

// begin starts the chunk whose size line is given. Extensions are dropped.
func (c *chunks) begin(line []byte) error {
	size, ok := chunkSize(line)
	switch {
	case !ok && (len(line) < 2 || line[len(line)-2] != '\r'):
		return errChunkLine
	case !ok:
		return errChunkSize
	case size == 0:
		c.last = true
		return io.EOF
	}
	c.excess = max(0, c.excess+int64(len(line))-chunkSpare-2*int64(min(size, maxChunkExcess)))
	if c.excess > maxChunkExcess {
		return errChunkExcess
	}
	c.left, c.inside = size, true
	return nil
}

// chunkSize reads a size line with its CRLF, within which no other CR is.
func chunkSize(line []byte) (uint64, bool) {
	end := len(line) - len("\r\n")
	if end < 0 || line[end] != '\r' {
		return 0, false
	}
	digits := end
	for i, b := range line[:end] {
		if b == ';' {
			digits = min(digits, i)
		}
		if b == '\r' {
			return 0, false
		}
	}
	for digits > 0 && isBlank(line[digits-1]) {
		digits--
	}
	if digits == 0 || digits > 16 {
		return 0, false
	}
	for _, b := range line[:digits] {
		if !isHex(b) {
			return 0, false
		}
	}
	size, err := strconv.ParseUint(string(line[:digits]), 16, 64)
	return size, err == nil
}

func isHex(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
}

// trailer reads the trailer section. It has no fields most often. Without wait it gives false where the section is not in
// memory.
func (c *chunks) trailer(wait bool) (http.Header, bool, error) {
	for {
		if end := trailerEnd(c.in.bytes()); end > 0 {
			section := string(c.in.bytes()[:end])
			c.in.start += end
			if end == len("\r\n") {
				return nil, true, nil
			}
			h, err := parseFields(section)
			return h, true, err
		}
		if c.in.buffered() > maxTrailer {
			return nil, false, errTrailerTooLong
		}
		if n, err := c.in.fill(wait); n == 0 {
			return nil, false, unexpected(err)
		}
	}
}
