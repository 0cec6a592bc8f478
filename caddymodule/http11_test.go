package caddymodule

import (
	"strings"
	"testing"
)

// TestHTTP11Required has an origin that refuses HTTP/2 for what it is asked.
func TestHTTP11Required(t *testing.T) {
	get, post := asks("h1", 0, "GET", "")+says("h1", 0), asks("h1", 0, "POST", "data")+says("h1", 0)
	for _, protocol := range []string{"h2", "h2c"} {
		// Whoever may choose takes HTTP/2.
		begin, words := "tls h2 http/1.1\n", ""
		if protocol == "h2c" {
			begin, words = "", "versions h2c 1.1"
		}
		site := func(t *testing.T, more string, refusal, then string) *scriptedOrigin {
			if protocol == "h2c" {
				return startScripted(t, "http", "h1-cleartext", words+"\n"+more, "h2\n"+refusal, then)
			}
			return startScripted(t, "http", protocol, words+"\n"+more, begin+"h2\n"+refusal, begin+then)
		}
		for name, refusal := range map[string]string{
			"H07_reset":  "<- RST_STREAM 1 HTTP_1_1_REQUIRED\n-> rest",
			"H07_goaway": "<- GOAWAY 0 HTTP_1_1_REQUIRED\n-> rest",
		} {
			t.Run(name+"_"+protocol, func(t *testing.T) {
				o := site(t, "", asks("h2", 0, "GET", "")+refusal, get+post+"-> rest")
				o.answered("GET", "")
				o.answered("POST", "data")
				o.opened("http", 2)
			})
			t.Run(name+"_of_post_"+protocol, func(t *testing.T) {
				o := site(t, "", asks("h2", 0, "POST", "data")+refusal, post+get+"-> rest")
				o.answered("POST", "data")
				o.answered("GET", "")
				o.opened("http", 2)
			})
			t.Run(name+"_body_is_too_long_"+protocol, func(t *testing.T) {
				o := site(t, "replay_bytes 3", "-> HEADERS 1\n-> DATA 1 \"data\"\n"+refusal, post+get+"-> rest")
				o.fails("POST", "data", "origin_http11_required")
				o.answered("POST", "data")
				o.answered("GET", "")
				o.opened("http", 2)
			})
		}
	}
	t.Run("H07_http11_is_not_allowed", func(t *testing.T) {
		o := startScripted(t, "http", "h2c", "", asks("h2c", 0, "POST", "data")+"<- RST_STREAM 1 HTTP_1_1_REQUIRED\n"+
			asks("h2c", 1, "GET", "")+says("h2c", 1)+"-> rest")
		o.fails("POST", "data", "origin_http11_required")
		if !strings.Contains(o.logs(), "'versions' must have 1.1") {
			t.Error("the log does not say what to do")
		}
		o.answered("GET", "")
		o.opened("http", 1)
	})
	t.Run("H07_unprocessed_post_goes_to_another_upstream", func(t *testing.T) {
		o := startScripted(t, "http", "h2c", "", asks("h2c", 0, "POST", "")+"<- RST_STREAM 1 HTTP_1_1_REQUIRED\n-> rest")
		o.fails("POST", "", "origin_http11_required")
	})
}
