package testbed

import (
	"html/template"
	"net/http"
	"strings"
)

// pathInfo is one line of the index.
type pathInfo struct {
	Path  string `json:"path"` // an example
	About string `json:"about"`
}

// route is one pattern of the origin with what the index says of it.
type route struct {
	pattern string
	example string // empty: not listed
	about   string
	handler http.HandlerFunc
}

// routes lists every path. A pattern without a method takes every method.
func (o *Origin) routes() []route {
	return []route{
		{"/bytes/{n}", "/bytes/64KiB?coding=gzip&framing=length",
			"a page of any length: coding=gzip|deflate|rawdeflate|br|zstd (several, separated by commas; auto: as the client offers), " +
				"framing=length|chunked, seed=<number> another page, members=<number>, window=<size> of zstd, no-transform; X-Sha256 is of the identity form", o.bytes},
		{"/upload", "/upload", "reads the request body, answers its length and SHA-256", upload},
		{"/early", "/early", "answers 413 before it reads the body", early},
		{"/echo", "/echo", "sends the request body back while it comes in", echo},
		{"/headers", "/headers", "what the origin saw of the request", headers},
		{"/status/{code}", "/status/404", "any status; location=<url>", status},
		{"/events", "/events?n=5&every=1s", "an event stream, coding= as in /bytes; event k+1 is sent after event k was acknowledged at /events/ack?id=&seq=, " +
			"or after every=<duration>; n=0: without end; id=<name>; pad=<size> in each event", o.events},
		{"/events/ack", "", "acknowledges event seq=<number> of the stream id=<name>", o.acknowledge},
		{"/ws", "/ws", "WebSocket echo", webSocket},
		{"/upgrade", "/upgrade", "Upgrade: echo, or sum, with half-close; banner=<text> comes with the 101", upgrade},
		{"/slow", "/slow?chunk=1KiB&n=5&every=100ms&wait=0s", "waits, then sends chunks with pauses", slow},
		{"/trailers", "/trailers", "a body with trailers", trailers},
		{"/early-hints", "/early-hints", "103 twice, then 200", earlyHints},
		{"/grpc", "/grpc?status=0", "gRPC-like echo of messages; status=<number>, trailers-only", grpc},
		{"/last", "/last", "asks for the connection to be closed: Connection: close, or GOAWAY", lastAnswer},
		{"/until-close", "/until-close?n=64KiB", "a body that ends with the connection", untilClose},
		{"/huge-head", "/huge-head?n=1MiB", "a head of that size", hugeHead},
		{"/bomb/{coding}", "/bomb/gzip?n=64MiB", "zeros, encoded; first=<size>: in a member of their own before the rest", bomb},
		{"/hollow/{coding}", "/hollow/gzip?n=1048576", "n members that decode into nothing (gzip, zstd); 0: without end", hollow},
		{"/broken/short", "/broken/short?announce=123&send=50", "fewer bytes than announced", brokenShort},
		{"/broken/chunk", "/broken/chunk", "ends without the last chunk", brokenChunk},
		{"/broken/reset", "/broken/reset", "a reset in the middle of the body", brokenReset},
		{"/broken/no-reply", "/broken/no-reply", "closes without an answer", brokenNoReply},
		{"/broken/head", "/broken/head", "closes in the middle of the head", brokenHead},
		{"/broken/garbage", "/broken/garbage", "an answer that is no HTTP", brokenGarbage},
		{"/broken/hang", "/broken/hang", "no answer at all", brokenHang},
		{"/broken/corrupt/{coding}", "/broken/corrupt/gzip", "a corrupt encoded body", o.brokenCoding("corrupt")},
		{"/broken/cut/{coding}", "/broken/cut/gzip", "an encoded body cut before its end, framed properly", o.brokenCoding("cut")},
		{"/broken/plain/{coding}", "/broken/plain/gzip", "plain text that claims a coding", o.brokenCoding("plain")},
	}
}

// newRoutes returns the handler of every path, the index and the list of paths.
func newRoutes(o *Origin) http.Handler {
	mux := http.NewServeMux()
	var listed []pathInfo
	for _, r := range o.routes() {
		mux.HandleFunc(r.pattern, r.handler)
		if r.example != "" {
			listed = append(listed, pathInfo{r.example, r.about})
		}
	}
	index := indexPage(listed)
	mux.HandleFunc("/paths", func(w http.ResponseWriter, r *http.Request) { answerJSON(w, listed) })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(index)) // a client that has gone needs no answer
	})
	return mux
}

func indexPage(listed []pathInfo) string {
	page := template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Testbed origin</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}td{padding:.2rem 1rem .2rem 0;vertical-align:top}</style>
<h1>Testbed origin</h1>
<p>What each path answers. Sizes take B, KB, MB, GB, KiB, MiB and GiB.</p>
<table>
{{range .}}<tr><td><a href="{{.Path}}">{{.Path}}</a></td><td>{{.About}}</td></tr>
{{end}}</table>
`))
	var b strings.Builder
	if err := page.Execute(&b, listed); err != nil {
		panic("testbed: index page: " + err.Error()) // the template and its data are constant
	}
	return b.String()
}
