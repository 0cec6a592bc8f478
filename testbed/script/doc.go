// Package script plays the other side of a connection from a script, so that a test of a misbehaving proxy, TLS server or
// HTTP/2 server reads as its story.
//
//	peer := script.Listen(t, `
//		-> head "CONNECT origin.test:443 HTTP/1.1\r\n"
//		<- "HTTP/1.1 200 OK\r\n\r\n" "SSH-2.0-origin\r\n"   # the origin's first words in the same segment
//		-> "hello"
//		wait 200ms
//		close`)
//	// let the code under test dial peer.Addr
//
// A script has one step a line. "->" is what the code under test sends, "<-" what the peer sends; "#" begins a comment.
// ITEMS are Go string literals, bytes as two hex digits, and repetitions such as 1000*"x", joined by spaces.
//
//	-> ITEMS              exactly these bytes come
//	-> 12 bytes           any 12 bytes come
//	-> head ["text" ...]  what comes up to the first blank line holds each of the texts
//	-> eof                the other side closes or half-closes, and sends nothing before
//	-> rest               whatever comes, until the other side closes
//	-> unanswered         the same, and nothing is acknowledged
//	<- ITEMS              one write
//	<- dribble ITEMS      a write for each byte
//	<- forever ITEMS      again and again, until the other side closes
//	wait 200ms            a pause
//	quiet 5s              a pause in which not a byte comes
//	eof                   half-close
//	close, cut, reset     close properly; within TLS without its goodbye; with a TCP reset
//	tls [ALPN ...]        a TLS handshake as the server: what follows is within
//	h2                    the preface and both sides' SETTINGS: what follows are frames
//
// Frames have the names of RFC 9113, and so have flags, settings and error codes. The fields of a head are name=value or
// name="value".
//
//	-> HEADERS [1] [:path=/x ...] [END_STREAM]      <- HEADERS 1 :status=200 ... [END_STREAM]
//	-> DATA 1 [ITEMS] [END_STREAM]                  <- DATA 1 [ITEMS] [pad=10] [END_STREAM]
//	-> RST_STREAM [1] [CANCEL]                      <- RST_STREAM 1 CANCEL
//	-> GOAWAY                                       <- GOAWAY 1 NO_ERROR ["debug data"]
//	-> PING [ACK]                                   <- PING
//	-> SETTINGS [NAME=VALUE ...]                    <- SETTINGS [NAME=VALUE ...]
//	-> WINDOW_UPDATE [1]                            <- WINDOW_UPDATE 1 100
//	                                                <- FRAME type flags stream [ITEMS]
//
// HEADERS that come hold the fields named, and may hold others; SETTINGS are exactly those named, if any are. DATA is read until
// its ITEMS have come, in however many frames, and the flow control window is given back. While the peer waits for a frame it
// acknowledges SETTINGS and PING and skips WINDOW_UPDATE and PRIORITY; any other frame is a departure from the script.
//
// The connection is closed when its script ends. A departure from the script fails the test, and so does a script that
// still waits for something when the test ends, except in "-> rest", "-> unanswered", "-> eof" and "<- forever".
//
// The peer does not judge what a script makes it send. It keeps to no window and knows no limits.
package script
