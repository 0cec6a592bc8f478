package h1c

import (
	"io"
	"maps"
	"net/http"
	"sync"
)

// body is the body of a response. Close may be called while a Read is under way, and ends it.
type body struct {
	x       *exchange
	res     *http.Response
	framing framing

	mu     sync.Mutex // held while reading
	left   int64      // of byLength
	chunks chunks     // of byChunks
	err    error      // stays
}

// Read waits for the first byte only, and goes on with what is in memory. io.EOF may come with the last bytes.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	var n int
	var err error
	switch b.framing {
	case byLength:
		n, err = b.readLength(p)
	case byChunks:
		n, err = b.readChunks(p)
	default:
		n, err = b.x.c.in.read(p, len(p))
	}
	switch {
	case err == nil:
	case err == io.EOF:
		b.err = io.EOF
		b.x.finish()
	default:
		if err = b.x.abort(err); b.x.req.Context().Err() == nil {
			err = &Error{Op: opBody, Err: err}
		}
		b.err = err
		b.x.c.in.release()
	}
	return n, b.err
}

// readLength asks for one byte more than there is to come, which tells that the peer sends too much.
func (b *body) readLength(p []byte) (int, error) {
	in := &b.x.c.in
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1]
	}
	n, err := in.read(p, int(min(int64(len(p)), b.left)))
	if int64(n) > b.left {
		n, in.unwanted = int(b.left), true
	}
	b.left -= int64(n)
	if b.left == 0 {
		return n, io.EOF
	}
	return n, unexpected(err)
}

func (b *body) readChunks(p []byte) (n int, err error) {
	if !b.chunks.last {
		if n, err = b.chunks.read(p); err != io.EOF {
			return n, err
		}
	}
	trailer, here, err := b.chunks.trailer(n == 0)
	if err != nil || !here {
		return n, err
	}
	if b.res.Trailer == nil {
		b.res.Trailer = trailer
	} else {
		maps.Copy(b.res.Trailer, trailer)
	}
	return n, io.EOF
}

// Close closes the connection unless the body was read to its end.
func (b *body) Close() error {
	_ = b.x.abort(http.ErrBodyReadAfterClose)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
		b.x.c.in.release()
	}
	return nil
}
