// Command bench measures what a tunnelled request costs; see package bench and docs/costs.md.
//
//	bench [-full] [-part NAME,...] [-cells REGEXP] [-caddy FILE] [-dir FOLDER]
//	bench peers
//
// The second form is what the first runs as the other end: an origin and proxies, until its standard input ends. The
// exit status is 1 if something could not be measured; no figure makes it fail.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"

	"github.com/caddytunnel/caddytunnel/bench"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "peers" {
		exit(bench.ServePeers(os.Stdin, os.Stdout))
	}
	o := bench.Options{Out: os.Stdout, Progress: os.Stderr}
	flag.BoolVar(&o.Full, "full", false, "measure everything, for hours")
	parts := flag.String("part", "", "the parts to run, of "+strings.Join(bench.PartNames(), ", ")+"; empty: all")
	cells := flag.String("cells", "", "lines of the part sidebyside, by origin/protocol/mode/clients/size, such as testbed/h1/warm/1/1024")
	flag.StringVar(&o.Caddy, "caddy", "bin/caddy", "the Caddy to measure")
	flag.StringVar(&o.Dir, "dir", "bench/results", "where the results go; empty: to standard output only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, *parts, *cells)
	stop()
	exit(err)
}

func run(ctx context.Context, o bench.Options, parts, cells string) (err error) {
	if parts != "" {
		o.Parts = strings.Split(parts, ",")
	}
	if cells != "" {
		if o.Cells, err = regexp.Compile(cells); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Peers = []string{self, "peers"}
	return bench.Run(ctx, o)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
