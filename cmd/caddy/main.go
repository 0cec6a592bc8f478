// Command caddy is Caddy with its standard modules and the tunnel transport, for development and for the demo.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddytunnel/caddytunnel"
)

func main() { caddycmd.Main() }
