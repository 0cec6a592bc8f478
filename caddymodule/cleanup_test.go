package caddymodule

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestCleanup ends a config while a stream is upgraded. When such streams end is for reverse_proxy to say (stream_close_delay).
func TestCleanup(t *testing.T) {
	for _, way := range bedWays {
		for _, protocol := range []string{"h1", "h1-cleartext"} {
			t.Run("K06_"+protocol+"_"+way, func(t *testing.T) {
				b := newBed(t)
				tr := b.transport(way, protocol)
				ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
				defer cancel()
				if err := tr.Provision(ctx); err != nil {
					t.Fatal(err)
				}
				req := b.request(t, protocol, "/upgrade")
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "echo")
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				stream, upgraded := res.Body.(io.ReadWriter)
				if !upgraded || res.StatusCode != http.StatusSwitchingProtocols {
					t.Fatalf("%d", res.StatusCode)
				}
				cancel()
				if err := tr.Cleanup(); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 5)
				if _, err := stream.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(stream, got); err != nil || string(got) != "hello" {
					t.Errorf("%q, %v", got, err)
				}
				res.Body.Close()
				b.awaitNone()
			})
		}
	}
}
