package caddymodule

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// encoded is data in a coding; rawdeflate is deflate without a wrapper.
func encoded(coding string, data []byte) []byte {
	var out bytes.Buffer
	switch coding {
	case "gzip":
		return gzipped(data)
	case "deflate":
		w := zlib.NewWriter(&out)
		w.Write(data)
		w.Close()
	case "rawdeflate":
		w, _ := flate.NewWriter(&out, flate.DefaultCompression)
		w.Write(data)
		w.Close()
	case "br":
		w := brotli.NewWriter(&out)
		w.Write(data)
		w.Close()
	case "zstd":
		w, _ := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		w.Write(data)
		w.Close()
	}
	return out.Bytes()
}

// prose is text that compresses to about a third.
func prose(lines int) []byte {
	var out bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&out, "line %d of a text that goes on for a while, %x\n", i, i*i*7919)
	}
	return out.Bytes()
}

// TestMiscoded has bodies that are properly framed and not what their Content-Encoding says. None of them looks whole, none gives a
// byte that was not in the original, and each is logged once.
func TestMiscoded(t *testing.T) {
	plain := prose(3000)
	b := newBed(t)
	handlers := make(map[string]http.Handler)
	serve := func(path, coding string, data []byte) {
		handlers["/"+path+"/"+coding] = serveCoded(strings.TrimPrefix(coding, "raw"), data)
	}
	for _, coding := range bombCodings {
		data := encoded(coding, plain)
		serve("cut1", coding, data[:len(data)-1])
		serve("cut8", coding, data[:len(data)-8])
		serve("half", coding, data[:len(data)/2])
		serve("header", coding, append([]byte("\xff\xff\xff\xff"), data[4:]...))
		serve("plain", coding, []byte("\xffplain text, whatever the head says\n"))
		serve("behind", coding, append(bytes.Clone(data), "bytes behind the end"...))
		middle := bytes.Clone(data)
		for i := range 32 {
			middle[len(middle)/2+i] ^= byte(i*37 + 1)
		}
		serve("middle", coding, middle)
	}
	b.extend(handlers)
	s := startCaddy(t, b.legSites("", "decode", ""))
	// broken downloads what claims to be in a coding.
	broken := func(t *testing.T, l leg, client, path string) {
		t.Helper()
		logged := len(s.logged("response body failed"))
		d := s.download(t, client, "/"+l.name()+path)
		if !d.broken(2*len(plain)) || d.header.Get("Content-Encoding") != "" {
			t.Errorf("%s %s: %v", client, path, d)
		}
		if !strings.HasPrefix(path, "/middle") && !bytes.HasPrefix(plain, d.body) {
			t.Errorf("%s %s: other bytes than the original's", client, path)
		}
		s.bodyFailed(t, logged, "body_decode_failed", b.target(l.protocol))
	}
	// refused downloads what is found to be wrong before the head has gone out.
	refused := func(t *testing.T, l leg, clients []string, path string) {
		t.Helper()
		logged := len(s.logged("request failed"))
		for i, client := range clients {
			if d := s.download(t, client, "/"+l.name()+path+"?length=1"); d.status != 502 || d.err != nil || len(d.body) > 0 {
				t.Errorf("%s %s: %v", client, path, d)
			}
			entries := s.logged("request failed")
			if e := entries[len(entries)-1]; len(entries) != logged+i+1 || e["code"] != "body_decode_failed" || e["stage"] != "body" ||
				e["target"] != b.target(l.protocol) || e["status"] != 502.0 {
				t.Errorf("%s %s: logged %v", client, path, e)
			}
		}
	}
	for i, l := range bodyLegs {
		for j, coding := range bombCodings {
			if (i+j)%5 < 2 {
				continue // each coding over three legs, and each leg with three codings
			}
			clients := someOf(downloaders(), i+j)
			t.Run("B09_"+coding+"_"+l.name(), func(t *testing.T) {
				broken(t, l, clients[0], "/cut1/"+coding)
				broken(t, l, clients[1], "/cut8/"+coding+"?length=1")
				broken(t, l, clients[0], "/half/"+coding)
			})
			t.Run("B12_"+coding+"_"+l.name(), func(t *testing.T) {
				broken(t, l, clients[0], "/plain/"+coding)
				refused(t, l, clients, "/plain/"+coding)
			})
			t.Run("B30_"+coding+"_"+l.name(), func(t *testing.T) {
				for _, path := range []string{"/header/", "/middle/", "/behind/"} {
					if coding == "rawdeflate" && path == "/middle/" {
						continue // it has no checksum: what is changed may decode
					}
					broken(t, l, clients[1], path+coding)
				}
				refused(t, l, clients, "/header/"+coding)
			})
		}
	}
}

// TestMiscodedReason gives the reason to handle_errors where there still can be a page, and passes the same bytes where nothing is
// decoded.
func TestMiscodedReason(t *testing.T) {
	text := []byte("plain text, whatever the head says\n")
	b := newBed(t)
	b.extend(map[string]http.Handler{"/plain": serveCoded("gzip", text)})
	s := startCaddy(t, b.legSites("", "decode", "")+b.legSites("untouched-", "", "")+"\nhandle_errors {\nrespond \"{err.status_code} {err.message}\"\n}")
	for _, l := range bodyLegs {
		t.Run("B12_reason_"+l.name(), func(t *testing.T) {
			d := s.download(t, "h1", "/"+l.name()+"/plain?length=1")
			if d.status != 502 || !strings.HasPrefix(string(d.body), "502 response body is not valid gzip") || !strings.HasSuffix(string(d.body), "[body_decode_failed]") {
				t.Errorf("%v: %s", d, d.body)
			}
		})
		t.Run("B12_untouched_"+l.name(), func(t *testing.T) {
			for _, query := range []string{"", "?length=1"} {
				if d := s.download(t, "h2c", "/untouched-"+l.name()+"/plain"+query); d.status != 200 || d.err != nil || !bytes.Equal(d.body, text) {
					t.Errorf("%v", d)
				}
			}
		})
	}
}

// TestMiscodedIsHungUpOn has origins that go on behind a fault for ever: nothing of it is read any more.
func TestMiscodedIsHungUpOn(t *testing.T) {
	whole := gzipped(prose(50))
	for name, first := range map[string][]byte{"header": []byte("no gzip at all"), "middle": append(whole[:len(whole)-9:len(whole)-9], "\xff\xff\xff\xff\xff\xff\xff\xff\xff"...)} {
		t.Run("B30_"+name+"_h1", func(t *testing.T) {
			origin := script.Listen(t, fmt.Sprintf("-> head\n<- \"HTTP/1.1 200 OK\\r\\nContent-Encoding: gzip\\r\\nContent-Length: 1000000000000\\r\\n\\r\\n\" %q\n<- forever 1000*\"x\"", first))
			assertHungUpOn(t, origin, "http")
		})
		t.Run("B30_"+name+"_h2c", func(t *testing.T) {
			origin := script.Listen(t, fmt.Sprintf("h2\n-> HEADERS 1 END_STREAM\n<- HEADERS 1 :status=200 content-encoding=gzip\n<- DATA 1 %q 5000*\"x\"\n-> RST_STREAM 1 CANCEL\n-> rest", first))
			assertHungUpOn(t, origin, "h2c")
		})
	}
}

func assertHungUpOn(t *testing.T, origin *script.Peer, scheme string) {
	t.Helper()
	b := newBed(t)
	s := startCaddy(t, fmt.Sprintf("reverse_proxy %s://%s {\ntransport tunnel {\n%s\ndecode\nkeepalive off\n}\n}", scheme, origin.Addr, b.via("https")))
	if d := s.download(t, "h1", "/"); d.err == nil && d.status != 502 {
		t.Errorf("%v", d)
	}
	origin.Wait()
}
