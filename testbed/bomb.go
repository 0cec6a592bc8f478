package testbed

import (
	"context"
	"io"
	"net/http"
	"slices"
)

// bomb answers n bytes of zero, encoded: a small body that decodes into a large one.
func bomb(w http.ResponseWriter, r *http.Request) {
	coding := r.PathValue("coding")
	query := r.URL.Query()
	n, err := ParseSize(defaulted(query.Get("n"), "64MiB"))
	first, firstErr := ParseSize(defaulted(query.Get("first"), "0"))
	if !slices.Contains(codingNames(), coding) {
		err = unknownCoding(coding)
	}
	if err := firstError(err, firstErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Encoding", contentCoding(coding))
	if r.Method == http.MethodHead {
		return
	}
	_ = http.NewResponseController(w).Flush() // no length, however small
	members := []int64{n}
	if first > 0 {
		members = []int64{min(first, n), n - min(first, n)}
	}
	for _, size := range members {
		if err := writeZeros(r.Context(), w, coding, size); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// writeZeros writes one member of size bytes of zero.
func writeZeros(ctx context.Context, w io.Writer, coding string, size int64) error {
	e, err := newEncoder(coding, w, 0)
	if err != nil {
		return err
	}
	zeros := make([]byte, 64<<10)
	for ; size > 0 && err == nil; size -= int64(len(zeros)) {
		if err = ctx.Err(); err == nil {
			_, err = e.Write(zeros[:min(size, int64(len(zeros)))])
		}
	}
	return firstError(err, e.Close())
}

// hollow answers n members that decode into nothing; 0: without end.
func hollow(w http.ResponseWriter, r *http.Request) {
	coding := r.PathValue("coding")
	n, err := number(r.URL.Query().Get("n"), 1<<20)
	var member []byte
	switch coding {
	case "gzip":
		member = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	case "zstd":
		member = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}
	default:
		err = unknownCoding(coding)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Encoding", coding)
	const batch = 1 << 10
	many := make([]byte, 0, batch*len(member))
	for range batch {
		many = append(many, member...)
	}
	for sent := 0; n == 0 || sent < n; sent += batch {
		part := many
		if n > 0 {
			part = many[:min(batch, n-sent)*len(member)]
		}
		if _, err := w.Write(part); err != nil || r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}
}
