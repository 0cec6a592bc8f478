package testbed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// rawAnswer writes these bytes in place of an HTTP/1.1 answer, then closes the connection, or resets it. Over HTTP/2 it
// does nothing and reports false.
func rawAnswer(w http.ResponseWriter, r *http.Request, answer string, withReset bool) bool {
	if r.ProtoMajor != 1 {
		return false
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	_, _ = io.WriteString(conn, answer)
	if withReset {
		reset(conn)
	} else {
		conn.Close()
	}
	return true
}

// brokenShort announces more bytes than it sends and ends properly.
func brokenShort(w http.ResponseWriter, r *http.Request) {
	announced, announcedErr := number(r.URL.Query().Get("announce"), 123)
	sent, sentErr := number(r.URL.Query().Get("send"), 50)
	if err := firstError(announcedErr, sentErr); err != nil || sent > 1<<20 {
		http.Error(w, "announce and send are counts; send can be up to 1048576", http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	_ = Page(int64(sent), &body)
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n", announced)
	if !rawAnswer(w, r, head+body.String(), false) {
		w.Header().Set("Content-Length", strconv.Itoa(announced))
		_, _ = w.Write(body.Bytes()) // the missing bytes are the point
	}
}

// brokenChunk ends at a chunk's edge, without the last chunk.
func brokenChunk(w http.ResponseWriter, r *http.Request) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
	if !rawAnswer(w, r, answer, false) {
		brokenReset(w, r)
	}
}

// brokenReset resets the connection, or the stream over HTTP/2, in the middle of the body.
func brokenReset(w http.ResponseWriter, r *http.Request) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhello"
	if !rawAnswer(w, r, answer, true) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "hello")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// brokenNoReply reads the request and closes without a byte.
func brokenNoReply(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if !rawAnswer(w, r, "", false) {
		panic(http.ErrAbortHandler)
	}
}

// brokenHead closes in the middle of the head.
func brokenHead(w http.ResponseWriter, r *http.Request) {
	if !rawAnswer(w, r, "HTTP/1.1 200 OK\r\nContent-Ty", false) {
		panic(http.ErrAbortHandler)
	}
}

// brokenGarbage answers what is no HTTP.
func brokenGarbage(w http.ResponseWriter, r *http.Request) {
	if !rawAnswer(w, r, "SSH-2.0-OpenSSH_10.0\r\n", false) {
		panic(http.ErrAbortHandler)
	}
}

// brokenHang does not answer.
func brokenHang(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// untilClose sends a body whose end is the connection's.
func untilClose(w http.ResponseWriter, r *http.Request) {
	n, err := ParseSize(defaulted(r.URL.Query().Get("n"), "64KiB"))
	if err != nil || n > keepBody {
		http.Error(w, "n can be up to 8MiB", http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	_ = Page(n, &body)
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n" + SumHeader + ": " + PageSum(n) + "\r\n\r\n"
	if !rawAnswer(w, r, head+body.String(), false) {
		_, _ = w.Write(body.Bytes())
	}
}

// brokenCoding answers a body that is not what its Content-Encoding says, framed properly: with a byte changed in the
// middle, cut before its end, or not encoded at all.
func (o *Origin) brokenCoding(how string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		spec := bodySpec{n: 64 << 10, members: 1, codings: r.PathValue("coding")}
		body, err := o.spoil(r.Context(), how, spec)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Encoding", spec.contentEncoding())
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}

func (o *Origin) spoil(ctx context.Context, how string, spec bodySpec) ([]byte, error) {
	known, err := o.bodies.get(ctx, spec)
	if err != nil {
		return nil, err
	}
	body := bytes.Clone(known.body)
	switch how {
	case "corrupt":
		for i := range 64 {
			body[len(body)/2+i] ^= byte(i*37 + 1)
		}
	case "cut":
		body = body[:len(body)-6]
	case "plain":
		body = []byte("plain text, whatever the head says\n")
	}
	return body, nil
}
