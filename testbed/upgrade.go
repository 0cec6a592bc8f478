package testbed

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"golang.org/x/net/websocket"
)

// webSocket echoes messages, text as text and binary as binary.
func webSocket(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "this is for WebSocket over HTTP/1.1", http.StatusUpgradeRequired)
		return
	}
	// A Server with no Handshake, unlike a Handler, takes clients that send no Origin.
	websocket.Server{Handler: echoMessages}.ServeHTTP(w, r)
}

type message struct {
	data []byte
	kind byte
}

func echoMessages(conn *websocket.Conn) {
	codec := websocket.Codec{
		Marshal: func(v any) ([]byte, byte, error) {
			m := v.(*message)
			return m.data, m.kind, nil
		},
		Unmarshal: func(data []byte, kind byte, v any) error {
			*v.(*message) = message{data, kind}
			return nil
		},
	}
	for {
		var m message
		if codec.Receive(conn, &m) != nil || codec.Send(conn, &m) != nil {
			return
		}
	}
}

// upgrade switches to one of two made-up protocols, the one that the client's Upgrade header names:
// "echo" sends every byte back and ends its direction when the client has ended the other; "sum" reads until the
// client ends its direction and then answers one line with the number of bytes and their SHA-256, so that a client
// gets it only if both halves of the way close by themselves.
func upgrade(w http.ResponseWriter, r *http.Request) {
	protocol := strings.ToLower(r.Header.Get("Upgrade"))
	if r.ProtoMajor != 1 || protocol != "echo" && protocol != "sum" {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo, sum")
		http.Error(w, "this is for Upgrade: echo or sum over HTTP/1.1", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	// The banner goes out in one segment with the head.
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
	if _, err := io.WriteString(conn, head+r.URL.Query().Get("banner")); err != nil {
		return
	}
	if protocol == "echo" {
		echoBytes(conn, buffered.Reader)
		return
	}
	hash := sha256.New()
	n, err := io.Copy(hash, buffered.Reader)
	if err != nil {
		return
	}
	fmt.Fprintf(conn, "%d %s\n", n, hex.EncodeToString(hash.Sum(nil)))
	_ = closeWrite(conn)
}

// echoBytes sends back what it reads until the end, then ends the other direction too.
func echoBytes(conn net.Conn, r io.Reader) {
	if _, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{r}, make([]byte, 32<<10)); err != nil {
		reset(conn)
		return
	}
	_ = closeWrite(conn)
}

// serveRaw accepts on the Raw port until the listener closes.
func (o *Origin) serveRaw(l net.Listener) {
	acceptEach(o.ctx, l, func(conn net.Conn) { o.running.Go(func() { o.echoRaw(conn) }) })
}

func (o *Origin) echoRaw(conn net.Conn) {
	defer conn.Close()
	if _, err := io.WriteString(conn, o.config.Banner); err != nil {
		return
	}
	echoBytes(conn, bufio.NewReader(conn))
}
