package body

import (
	"io"
	"net/http"
)

const (
	// beginBytes is how many bytes are decoded before the head of a response is given on.
	beginBytes = 512

	// smallEncoded and smallDecoded bound the bodies that are decoded before it as a whole.
	smallEncoded = 64 << 10
	smallDecoded = 256 << 10
)

// small is the beginning of a body that was taken in one read, in front of the rest.
type small struct {
	here []byte
	err  error // behind here
	rest io.Reader
}

// takeSmall takes what is here of a body, if its length is small. Reads of a body do not wait beyond the first byte.
func takeSmall(res *http.Response) *small {
	s := &small{rest: res.Body}
	if 0 < res.ContentLength && res.ContentLength <= smallEncoded {
		s.here = make([]byte, res.ContentLength)
		n, err := res.Body.Read(s.here)
		s.here, s.err = s.here[:n], err
	}
	return s
}

// whole reports whether all of the body is here.
func (s *small) whole() bool { return s.err == io.EOF }

func (s *small) Read(p []byte) (int, error) {
	if len(s.here) > 0 {
		n := copy(p, s.here)
		s.here = s.here[n:]
		return n, nil
	}
	if s.err != nil {
		return 0, s.err
	}
	return s.rest.Read(p)
}
