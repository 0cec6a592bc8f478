package h2c

import (
	"io"
	"net/http"
)

// upload is a request's body of a declared length. The engine would end the stream well wherever the body ends.
type upload struct {
	io.ReadCloser
	left int64
}

// outgoingBody is the body of req as the engine may read it.
func outgoingBody(req *http.Request) io.ReadCloser {
	if req.Body == nil || req.Body == http.NoBody || req.ContentLength <= 0 {
		return req.Body
	}
	return &upload{ReadCloser: req.Body, left: req.ContentLength}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.left -= int64(n)
	if err == io.EOF && u.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
