package tlsuser

import "io"

// copyBuffer is what io.Copy asks for in one read where the kernel does not copy.
const copyBuffer = 32 << 10

// WriteTo writes what is buffered to w, and then all that the conn beneath gives. Between two TCP conns the kernel copies by
// itself. Reads keep to the size all the same. io.Copy calls it.
func (r *ReadAhead) WriteTo(w io.Writer) (int64, error) {
	n, err := r.writeBuffered(w)
	if err != nil {
		return n, err
	}
	var src io.Reader = r.Conn
	if r.size < copyBuffer {
		src = struct{ io.Reader }{r}
	}
	m, err := io.Copy(w, src)
	return n + m, err
}

// writeBuffered writes what is buffered.
func (r *ReadAhead) writeBuffered(w io.Writer) (int64, error) {
	r.mu.Lock()
	var buffered []byte
	if r.buf != nil {
		buffered = append(buffered, (*r.buf)[r.start:r.end]...)
		r.drop()
	}
	err := r.err
	r.err = nil
	r.mu.Unlock()
	if len(buffered) > 0 {
		if n, werr := w.Write(buffered); werr != nil {
			return int64(n), werr
		}
	}
	if err == io.EOF {
		err = nil // and comes again
	}
	return int64(len(buffered)), err
}

// ReadFrom writes all that src gives to the conn beneath. Between two TCP conns the kernel copies by itself.
func (r *ReadAhead) ReadFrom(src io.Reader) (int64, error) { return io.Copy(r.Conn, src) }
