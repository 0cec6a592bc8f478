// Package caddymodule is the module http.reverse_proxy.transport.tunnel.
package caddymodule
