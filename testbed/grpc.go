package testbed

import (
	"encoding/binary"
	"io"
	"net/http"
)

// maxMessage bounds one gRPC message.
const maxMessage = 4 << 20

// grpc behaves like a bidirectional gRPC method that echoes messages, each as soon as it came in. The query decides
// the grpc-status, and whether it is sent at once and alone.
func grpc(w http.ResponseWriter, r *http.Request) {
	status := defaulted(r.URL.Query().Get("status"), "0")
	header := w.Header()
	header.Set("Content-Type", "application/grpc")
	header.Set("X-Te", r.Header.Get("Te"))
	if r.URL.Query().Has("trailers-only") {
		header.Set("Grpc-Status", status)
		header.Set("Grpc-Message", "trailers only")
		w.WriteHeader(http.StatusOK)
		return
	}
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is full duplex anyway
	header.Set("Trailer", "Grpc-Status, Grpc-Message")
	if control.Flush() != nil {
		return
	}
	message := "done"
	for {
		var head [5]byte
		if _, err := io.ReadFull(r.Body, head[:]); err == io.EOF {
			break
		} else if err != nil {
			panic(http.ErrAbortHandler)
		}
		size := binary.BigEndian.Uint32(head[1:])
		if size > maxMessage {
			status, message = "8", "message too large" // RESOURCE_EXHAUSTED
			break
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(append(head[:], body...)); err != nil || control.Flush() != nil {
			return
		}
	}
	header.Set("Grpc-Status", status)
	header.Set("Grpc-Message", message)
}
