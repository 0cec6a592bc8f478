package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddytunnel/caddytunnel/testbed"
	"github.com/caddytunnel/caddytunnel/testbed/peers"
)

// nginx is Debian's nginx as an origin of the testbed's pages.
type nginx struct {
	*peers.Web
	read int // of its log
	seen map[string]int64
}

// startNginx runs nginx and gives it a page of each size. The caller stops it.
func startNginx(ctx context.Context, sizes []int64) (*nginx, error) {
	web, err := peers.Nginx{}.StartWeb()
	if err != nil {
		return nil, err
	}
	n := &nginx{Web: web, seen: map[string]int64{}}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(web.CA.PEM)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	for _, size := range sizes {
		var page bytes.Buffer
		if err := testbed.Page(size, &page); err != nil {
			web.Stop()
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+web.TLS+n.path(size), &page)
		if err != nil {
			web.Stop()
			return nil, err
		}
		res, err := client.Do(req)
		if err != nil {
			web.Stop()
			return nil, err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			web.Stop()
			return nil, fmt.Errorf("nginx takes no page: %s", res.Status)
		}
	}
	return n, nil
}

func (n *nginx) path(size int64) string { return fmt.Sprintf("/upload/%d", size) }

// logged is how many requests were in the log when it was read.
func (n *nginx) logged() int64 { return n.seen["HTTP/1.1"] + n.seen["HTTP/2.0"] }

// requests returns how many GET requests nginx has logged so far, by protocol, once there are as many as the
// caller knows of: it logs a request after its last byte was sent.
func (n *nginx) requests(known int64) map[string]int64 {
	for range 200 {
		log := n.Log()
		end := strings.LastIndexByte(log, '\n') + 1
		for line := range strings.Lines(log[n.read:end]) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[2] == http.MethodGet {
				n.seen[fields[1]]++
			}
		}
		n.read = end
		if n.logged() >= known {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return n.seen
}
