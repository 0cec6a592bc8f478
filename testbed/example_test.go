package testbed_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/caddytunnel/caddytunnel/testbed"
)

// A client asks the origin through a proxy; the records of both tell that it went that way and no other.
func Example() {
	origin, err := testbed.NewOrigin(testbed.OriginConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer origin.Close()
	proxy, err := testbed.NewProxy(testbed.ProxyConfig{Dialect: testbed.SOCKS5})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()

	through := &http.Transport{
		Proxy:             func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL()) },
		DisableKeepAlives: true,
	}
	res, err := (&http.Client{Transport: through}).Get("http://" + origin.Plain + "/bytes/64KiB")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Println(res.Status, len(body), err)
	fmt.Println("as sent:", res.Header.Get(testbed.SumHeader) == testbed.PageSum(64<<10))
	fmt.Println("tunnels:", len(proxy.Seen()), "direct:", len(origin.Direct(proxy)))
	// Output:
	// 200 OK 65536 <nil>
	// as sent: true
	// tunnels: 1 direct: 0
}
