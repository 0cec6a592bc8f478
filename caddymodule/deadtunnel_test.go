package caddymodule

import (
	"testing"
)

// TestDeadTunnel has the origin end a tunnel that was kept for the next request.
func TestDeadTunnel(t *testing.T) {
	for _, protocol := range bedProtocols {
		first := asks(protocol, 0, "GET", "") + says(protocol, 0)
		get, post := asks(protocol, 1, "GET", ""), asks(protocol, 1, "POST", "data")
		partly := "<- \"HTTP/1.1 200 O\"\n"
		if wireProto(protocol) == "HTTP/2.0" {
			partly = "<- HEADERS 3 :status=103\n"
		}
		fresh := func(method, body string) string {
			return asks(protocol, 0, method, body) + says(protocol, 0) + "-> rest"
		}
		for _, end := range []string{"close", "reset"} {
			t.Run("P06_safe_request_is_sent_again_after_"+end+"_"+protocol, func(t *testing.T) {
				o := startScripted(t, "http", protocol, "", first+get+end, fresh("GET", ""))
				o.answered("GET", "")
				o.answered("GET", "")
				o.opened("http", 2)
			})
			t.Run("P06_written_post_fails_after_"+end+"_"+protocol, func(t *testing.T) {
				o := startScripted(t, "http", protocol, "", first+post+end, fresh("GET", ""))
				o.answered("GET", "")
				o.fails("POST", "data", "origin_no_answer")
				o.opened("http", 1)
				o.answered("GET", "")
				o.opened("http", 2)
			})
			if end == "close" && wireProto(protocol) == "HTTP/1.1" {
				continue // nobody waits for that: see TestDeadBeforeUse
			}
			t.Run("P06_unwritten_post_is_sent_after_"+end+"_"+protocol, func(t *testing.T) {
				o := startScripted(t, "http", protocol, "", first+end, fresh("POST", "data"))
				o.answered("GET", "")
				awaitTrue(t, "the tunnel to end", func() bool { return o.bed.proxies["http"].Conns() == 0 })
				o.answered("POST", "data")
				o.opened("http", 2)
			})
		}
		t.Run("P06_begun_answer_fails_"+protocol, func(t *testing.T) {
			o := startScripted(t, "http", protocol, "", first+get+partly+"close", fresh("GET", ""))
			o.answered("GET", "")
			o.fails("GET", "", "origin_failed")
			o.opened("http", 1)
		})
		t.Run("P06_first_request_of_a_tunnel_fails_"+protocol, func(t *testing.T) {
			o := startScripted(t, "http", protocol, "", asks(protocol, 0, "GET", "")+"close", fresh("GET", ""))
			o.fails("GET", "", "origin_no_answer")
			o.opened("http", 1)
		})
		t.Run("P06_second_tunnel_dies_too_"+protocol, func(t *testing.T) {
			o := startScripted(t, "http", protocol, "", first+get+"close", asks(protocol, 0, "GET", "")+"close")
			o.answered("GET", "")
			o.fails("GET", "", "origin_no_answer")
			o.opened("http", 2)
		})
	}
}
