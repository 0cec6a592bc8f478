// Package body guards response bodies: it undoes content codings and caps how many bytes get through.
//
// Typical use, once per request:
//
//	g := &body.Guard{MaxBytes: 10 << 20, Decode: body.Codings()}
//	g.Request(out.Header) // out is the caller's own clone of the request
//	res, err := conn.RoundTrip(out)
//	...
//	if err := g.Response(out, res); err != nil { // *TooLargeError: nothing was read
//		res.Body.Close()
//		...
//	}
//
// # Decoding
//
// A body is decoded as a whole or not at all. Stacked codings are undone in reverse order, five at most. A list
// that is longer, or that names a coding the Guard does not undo, leaves the body and its header as they are; a cap
// then counts the bytes as they came. Never decoded are 206, 204, 304 and 101 responses, messages whose
// Cache-Control says no-transform, and answers to requests with a Range or with an Accept-Encoding that admits no
// coding. gzip and x-gzip may hold several members and zstd several frames; deflate is taken as zlib or as raw
// DEFLATE, as its first two bytes say; zstd windows over 8 MiB are refused (RFC 9659). Bytes behind the end of a
// coded stream, a stream that ends early and a wrong checksum are errors. A body without any byte is an empty body.
//
// Decoded bytes are handed on as soon as the coding allows: at each sync or full flush of DEFLATE, each block of
// zstd, each flush of br, and at each member's end. (DEFLATE blocks that end in a partial flush wait for the next of
// these.) No reader starts a goroutine, and none reads ahead while it has bytes to give.
//
// Memory does not depend on the cap or on the body's size: about 60 KiB for gzip and deflate, and the window that the
// origin's encoder chose for zstd (at most 8 MiB and a block) and br (at most 16 MiB).
//
// # Caps
//
// Exactly the cap passes. One byte more is a *TooLargeError: from Guard.Response when the declared length says so, or
// the first bytes of a decoded body of declared length; else from the Read that finds it, after exactly as many bytes as the cap. Where bodies are decoded, the encoded bytes
// are capped at the same number on their own, between stacked codings too: members that produce nothing can go on
// for ever. Errors of Read are sticky.
//
// # What it does not do
//
// It does not buffer, compress, guard request bodies, check digests, choose status codes, or close a response that it
// refused. It does not touch the body of a 101.
//
// Specifications: RFC 9110 sections 7.7, 8.4, 8.8.1 and 12.5.3, RFC 1950, RFC 1951, RFC 1952, RFC 7932, RFC 8878,
// RFC 9530, RFC 9659.
package body
