package tunnel

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed/script"
)

// TestNothingIsSentEarly has proxies that take their time for every answer, while whoever dials has words to send. Not a
// byte of them comes before the tunnel is open, and then at once.
func TestNothingIsSentEarly(t *testing.T) {
	const (
		late   = "quiet 5s\n<- \"HTTP/1.1 200 OK\\r\\n\\r\\n\"\n"
		opened = "-> \"first words\"\n-> eof"
	)
	for name, tt := range map[string]struct {
		dialects []Dialect
		script   string // behind the request to the first
		after    time.Duration
	}{
		"C26_http":                 {[]Dialect{HTTP}, late + opened, 5 * time.Second},
		"C26_https":                {[]Dialect{HTTPS}, late + opened, 5 * time.Second},
		"C26_bytewise":             {[]Dialect{HTTP}, "<- \"HTTP/1.1 \"\nquiet 1s\n<- \"200\"\nquiet 1s\n<- \" OK\\r\\n\"\nquiet 1s\n<- \"\\r\\n\"\n" + opened, 3 * time.Second},
		"C26_interim":              {[]Dialect{HTTP}, "<- \"HTTP/1.1 100 Continue\\r\\n\\r\\n\"\n" + late + opened, 5 * time.Second},
		"C26_https_interim":        {[]Dialect{HTTPS}, "<- \"HTTP/1.1 102 Processing\\r\\n\\r\\n\"\n" + late + opened, 5 * time.Second},
		"C26_h2":                   {[]Dialect{H2}, "<- PING\n-> PING ACK\nquiet 5s\n<- HEADERS 1 :status=200\n-> DATA 1 \"first words\"\n-> rest", 5 * time.Second},
		"C26_h2_interim":           {[]Dialect{H2}, "<- HEADERS 1 :status=103\n<- PING\n-> PING ACK\nquiet 5s\n<- HEADERS 1 :status=200\n-> DATA 1 \"first words\"\n-> rest", 5 * time.Second},
		"C26_http_then_https":      {[]Dialect{HTTP, HTTPS}, late + scriptBegins(HTTPS, "origin.test:443") + late + opened, 10 * time.Second},
		"C26_https_then_http":      {[]Dialect{HTTPS, HTTP}, late + scriptBegins(HTTP, "origin.test:443") + late + opened, 10 * time.Second},
		"C26_http_then_socks5":     {[]Dialect{HTTP, SOCKS5}, late + "-> 05 01 00\nquiet 1s\n<- 05 00\n-> 05 01 00 03 0b \"origin.test\" 01 bb\nquiet 1s\n<- 05 00 00 01 7f 00 00 01 00 50\n" + opened, 7 * time.Second},
		"C03_last_line_feed_later": {[]Dialect{HTTP}, "<- \"HTTP/1.1 200 OK\\r\\n\\r\"\nquiet 200ms\n<- \"\\n\"\n" + opened, 200 * time.Millisecond},
		"C03_TLS_behind_it":        {[]Dialect{HTTP, HTTPS}, "<- \"HTTP/1.1 200 OK\\r\\nX: y\\r\\n\\r\"\nquiet 200ms\n<- \"\\n\"\n" + scriptBegins(HTTPS, "origin.test:443") + late + opened, 5200 * time.Millisecond},
		"C03_no_TLS_in_the_head":   {[]Dialect{HTTP, HTTPS}, "<- \"HTTP/1.1 200 OK\\r\\n\"\nquiet 200ms\n<- \"\\r\\n\"\n" + scriptBegins(HTTPS, "origin.test:443") + late + opened, 5200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hops []Hop
				config := script.Config{TLS: scriptTLS(t)}
				for _, dialect := range tt.dialects {
					hops = append(hops, scriptHop(dialect))
				}
				first := "origin.test:443"
				if len(hops) > 1 {
					first = hops[1].Addr
				}
				text := scriptBegins(tt.dialects[0], first)
				began := time.Now()
				conn, err := (&Dialer{Hops: hops, Dial: config.Dialer(t, text+tt.script)}).DialContext(context.Background(), "tcp", "origin.test:443")
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("the tunnel was open after %v, want %v", took, tt.after)
				}
				if _, err := io.WriteString(conn, "first words"); err != nil {
					t.Error(err)
				}
				conn.Close()
				<-time.After(time.Minute) // until the script is over
			})
		})
	}
}
