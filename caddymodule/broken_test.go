package caddymodule

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// answering is the script of an HTTP/1.1 origin that answers one request with these steps.
func answering(steps string) string { return "-> head\n" + steps }

// over2 is the script of an HTTP/2 origin that answers the first request with these steps.
func over2(steps string) string { return "h2\n-> HEADERS 1 END_STREAM\n" + steps }

// A scripted answer is what an origin says. Without TLS its script is for http or h2c, by its first step.
type scripted struct {
	name   string
	script string
	tls    bool
}

func (a scripted) scheme() string {
	switch {
	case a.tls:
		return "https"
	case strings.HasPrefix(a.script, "h2\n"):
		return "h2c"
	}
	return "http"
}

// serverTLS is the origin's side of TLS for scripted peers.
func (b *bed) serverTLS() *tls.Config {
	b.t.Helper()
	cert, err := b.origin.Authority().Issue(testbed.CertRequest{Names: []string{"127.0.0.1"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// answerSites puts each answer over each way below a path of its own: /name_way/. Each request has a connection for itself.
func (b *bed) answerSites(answers []scripted, ways []string, words string) (site string, addrs map[string]string) {
	var out strings.Builder
	addrs = make(map[string]string)
	for _, a := range answers {
		peer := script.Config{TLS: b.serverTLS()}.Listen(b.t, a.script)
		addrs[a.name] = peer.Addr
		trust := ""
		if a.tls {
			trust = "tls_trust_pool file " + b.originCA
		}
		for _, way := range ways {
			fmt.Fprintf(&out, "handle_path /%s_%s/* {\nreverse_proxy %s://%s {\ntransport tunnel {\n%s\n%s\nkeepalive off\n%s\n}\n}\n}\n",
				a.name, way, a.scheme(), peer.Addr, b.via(way), trust, words)
		}
	}
	return out.String(), addrs
}

const chunkedHead = `<- "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" `

// shortAnswers are responses whose bodies are not whole.
var shortAnswers = []scripted{
	{"length_none", answering(`<- "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n"`), false},
	{"length_part", answering(`<- "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n" 50*"x"`), false},
	{"length_part_1.0", answering(`<- "HTTP/1.0 200 OK\r\nContent-Length: 123\r\n\r\n" 50*"x"`), false},
	{"length_reset", answering(`<- "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n" 50*"x"` + "\nreset"), false},
	{"chunk_none", answering(chunkedHead), false},
	{"chunk_edge", answering(chunkedHead + `"5\r\nhello\r\n"`), false},
	{"chunk_part", answering(chunkedHead + `"5\r\nhel"`), false},
	{"chunk_size", answering(chunkedHead + `"5\r\nhello\r\n1"`), false},
	{"chunk_last", answering(chunkedHead + `"5\r\nhello\r\n0\r\n"`), false},
	{"chunk_trailer", answering(chunkedHead + `"5\r\nhello\r\n0\r\nX-Sum: 1\r\n"`), false},
	{"chunk_trailer_malformed", answering(chunkedHead + `"5\r\nhello\r\n0\r\n ` + bedPassword + `\r\n\r\n"`), false},
	{"chunk_malformed", answering(chunkedHead + `"5\r\nhello\r\nzz\r\n"`), false},
	{"close_reset", answering(`<- "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"` + "\nreset"), false},
	{"tls_length_none", answeringTLS(`<- "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n"`), true},
	{"tls_length_part", answeringTLS(`<- "HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n" 50*"x"`), true},
	{"tls_chunk_edge", answeringTLS(chunkedHead + `"5\r\nhello\r\n"`), true},
	{"tls_close_cut", answeringTLS(`<- "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"` + "\ncut"), true},
	{"h2_length_none", over2(`<- HEADERS 1 :status=200 content-length=123 END_STREAM` + "\n-> rest"), false},
	{"h2_length_empty", over2("<- HEADERS 1 :status=200 content-length=123\n<- DATA 1 END_STREAM\n-> rest"), false},
	{"h2_length_part", over2("<- HEADERS 1 :status=200 content-length=123\n<- DATA 1 50*\"x\" END_STREAM\n-> rest"), false},
	{"h2_length_trailers", over2("<- HEADERS 1 :status=200 content-length=123\n<- DATA 1 50*\"x\"\n<- HEADERS 1 x-sum=1 END_STREAM\n-> rest"), false},
	{"h2_reset_no_error", over2("<- HEADERS 1 :status=200\n<- DATA 1 50*\"x\"\n<- RST_STREAM 1 NO_ERROR\n-> rest"), false},
	{"h2_reset_cancel", over2("<- HEADERS 1 :status=200\n<- DATA 1 50*\"x\"\n<- RST_STREAM 1 CANCEL\n-> rest"), false},
	{"h2_closed", over2("<- HEADERS 1 :status=200\n<- DATA 1 50*\"x\""), false},
	{"h2_goaway", over2("<- HEADERS 1 :status=200\n<- DATA 1 50*\"x\"\n<- GOAWAY 1 INTERNAL_ERROR \"" + bedPassword + "\""), false},
	{"h2_tls_closed", "tls h2\n" + over2("<- HEADERS 1 :status=200\n<- DATA 1 50*\"x\""), true},
}

func answeringTLS(steps string) string { return "tls http/1.1\n" + answering(steps) }

// TestShortBodies checks that a body that ends too early does not look complete to any client, over any way, and that it is
// logged once. Its head has gone out by then, also where no byte of it came.
func TestShortBodies(t *testing.T) {
	b := newBed(t)
	site, addrs := b.answerSites(shortAnswers, bedWays, "")
	s := startGuarded(t, site)
	for i, a := range shortAnswers {
		for j, way := range bedWays {
			t.Run("B26_"+a.name+"_"+way, func(t *testing.T) {
				for _, client := range someOf(downloaders(), i+j) {
					logged := len(s.logged("response body failed"))
					d := s.download(t, client, "/"+a.name+"_"+way+"/")
					if !d.broken(50) {
						t.Errorf("%s: %v", client, d)
					}
					s.bodyFailed(t, logged, "body_incomplete", addrs[a.name])
				}
			})
		}
	}
}

// TestShortBodiesBehindHandlers puts what holds bodies back or rewrites them between the transport and the client: a body that
// is not whole must not become one.
func TestShortBodiesBehindHandlers(t *testing.T) {
	origin := script.Listen(t, answering(`<- "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 20000\r\n\r\n" 9000*"x"`))
	b := newBed(t)
	site := func(before, proxyWords, transportWords string) string {
		return fmt.Sprintf("%s\nreverse_proxy %s {\n%s\ntransport tunnel {\n%s\n%s\n}\n}", before, origin.Addr, proxyWords, b.via("http"), transportWords)
	}
	for name, site := range map[string]string{
		"capped":           site("", "", "max_body_bytes 1MiB"),
		"decode":           site("", "", "decode"),
		"response_buffers": site("", "response_buffers 1MiB", ""),
		"flush_interval":   site("", "flush_interval -1", ""),
		"encode":           site("encode gzip", "", ""),
		"copy_response":    site("", "@any status 2xx\nhandle_response @any {\ncopy_response\n}", ""),
	} {
		t.Run("B26_"+name, func(t *testing.T) {
			s := startCaddy(t, site)
			for i, client := range downloaders() {
				if d := s.download(t, client, "/", "Accept-Encoding: gzip"); !d.broken(9000) {
					t.Errorf("%s: %v", client, d)
				}
				s.bodyFailed(t, i, "body_incomplete", origin.Addr)
			}
		})
	}
}

// TestSurplus checks that what comes behind the declared length reaches nobody, neither as a part of the body nor as the next
// response.
func TestSurplus(t *testing.T) {
	answers := []scripted{
		{"h1", answering(`<- "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"` + "\n-> rest"), false},
		{"h2", over2("<- HEADERS 1 :status=200 content-length=5\n<- DATA 1 \"hello\" \"bad\" END_STREAM\n-> rest"), false},
	}
	b := newBed(t)
	site, _ := b.answerSites(answers, bedWays, "")
	s := startCaddy(t, site)
	for _, a := range answers {
		for _, way := range bedWays {
			t.Run("B26_"+a.name+"_"+way, func(t *testing.T) {
				for range 2 {
					if d := s.download(t, "h1", "/"+a.name+"_"+way+"/"); d.status != 200 || string(d.body) != "hello" {
						t.Errorf("%v", d)
					}
				}
			})
		}
	}
}
