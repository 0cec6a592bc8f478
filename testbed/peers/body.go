package peers

import (
	"io"
	"math/rand/v2"
	"os"
)

// Body returns the n bytes that [Nginx] serves for that size. No two blocks of it are equal, so that a body with a
// block lost, doubled or moved has another hash; gzip makes it about half as long.
func Body(n int64) io.Reader {
	return io.LimitReader(letters{rand.NewChaCha8([32]byte{'p', 'e', 'e', 'r', 's'})}, n)
}

// letters turns random bytes into the letters a to p.
type letters struct {
	random io.Reader
}

func (l letters) Read(p []byte) (int, error) {
	n, err := l.random.Read(p)
	for i := range p[:n] {
		p[i] = 'a' + p[i]&15
	}
	return n, err
}

func writeBody(path string, n int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, Body(n)); err != nil {
		f.Close() // the other error says more
		return err
	}
	return f.Close()
}
