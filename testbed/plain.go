package testbed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Uploaded is what the origin got of a request body; /upload answers it as JSON.
type Uploaded struct {
	Bytes    int64       `json:"bytes"`
	SHA256   string      `json:"sha256"`
	Proto    string      `json:"proto"`
	Length   int64       `json:"length"` // declared; -1: unknown
	Trailers http.Header `json:"trailers"`
}

func answerJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}

func upload(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	n, err := io.Copy(hash, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answerJSON(w, Uploaded{n, hex.EncodeToString(hash.Sum(nil)), r.Proto, r.ContentLength, r.Trailer})
}

// early answers before it has read any of the body.
func early(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	http.Error(w, "too large", http.StatusRequestEntityTooLarge)
}

// echo sends the body back while it comes in.
func echo(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is full duplex anyway
	w.Header().Set("Content-Type", defaulted(r.Header.Get("Content-Type"), "application/octet-stream"))
	if control.Flush() != nil {
		return
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil || control.Flush() != nil {
				return
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

func headers(w http.ResponseWriter, r *http.Request) { answerJSON(w, see(r)) }

// status answers any status, with a Location when one is asked for.
func status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.PathValue("code"))
	if err != nil || code < 200 || code > 999 {
		http.Error(w, "the status can be 200 to 999", http.StatusBadRequest)
		return
	}
	if to := r.URL.Query().Get("location"); to != "" {
		w.Header().Set("Location", to)
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="testbed"`)
	}
	if code == http.StatusNoContent || code == http.StatusNotModified {
		w.WriteHeader(code)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintf(w, "%d %s\n", code, http.StatusText(code))
}

// slow waits, then sends n chunks with a pause between them.
func slow(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	chunk, chunkErr := ParseSize(defaulted(query.Get("chunk"), "1KiB"))
	n, nErr := number(query.Get("n"), 5)
	every, everyErr := duration(query.Get("every"), 100*time.Millisecond)
	wait, waitErr := duration(query.Get("wait"), 0)
	if err := firstError(chunkErr, nErr, everyErr, waitErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	control := http.NewResponseController(w)
	if !pause(r.Context(), wait) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	body := SeededPageReader(chunk*int64(n), 0)
	for i := range n {
		if i > 0 && !pause(r.Context(), every) {
			panic(http.ErrAbortHandler) // never the look of a complete answer
		}
		if _, err := io.CopyN(w, body, chunk); err != nil || control.Flush() != nil {
			return
		}
	}
}

// pause returns after d, and false if the context ended before.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// trailers answers one that was announced and one that was not.
func trailers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Announced")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = http.NewResponseController(w).Flush()
	_, _ = io.WriteString(w, "a body, then trailers\n")
	w.Header().Set("X-Announced", "yes")
	w.Header().Set(http.TrailerPrefix+"X-Unannounced", "too")
}

// earlyHints sends 103 twice before its answer.
func earlyHints(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload; as=style")
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Add("Link", "</script.js>; rel=preload; as=script")
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "hinted\n")
}

// lastAnswer asks for the connection to be closed after it: by Connection: close, or GOAWAY on HTTP/2.
func lastAnswer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "the last on this connection\n")
}

// hugeHead answers a head of at least n bytes.
func hugeHead(w http.ResponseWriter, r *http.Request) {
	n, err := ParseSize(defaulted(r.URL.Query().Get("n"), "1MiB"))
	if err != nil || n > 64<<20 {
		http.Error(w, "n can be up to 64MiB", http.StatusBadRequest)
		return
	}
	const line = 1000
	value := make([]byte, line)
	for i := range value {
		value[i] = 'x'
	}
	for i := int64(0); i*line < n; i++ {
		w.Header().Set("X-Filler-"+strconv.FormatInt(i, 10), string(value))
	}
	_, _ = io.WriteString(w, "ok\n")
}
