package caddymodule

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// RegisterCommand registers the command "caddy tunnel". example is the Caddyfile that its demo serves. It is called once,
// by the root package, whose folder holds the example.
func RegisterCommand(example string) {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "tunnel",
		Usage: "demo [--check]",
		Short: "Tools of the tunnel transport",
		Long: "Tools of the transport that carries reverse_proxy's requests through proxies. In a Caddyfile it is\n\n" +
			"  reverse_proxy https://api.example.com {\n" +
			"    transport tunnel {\n" +
			"      via socks5://127.0.0.1:1080\n" +
			"    }\n" +
			"  }\n\n" +
			"with http://, https:// or h2:// for HTTP proxies, and 'via direct' for none. The other words are in the README,\n" +
			"and a word that is not known is refused with the list of those that are.",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args = cobra.NoArgs // an unknown command is an error
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			var check bool
			demo := &cobra.Command{
				Use:   "demo [--check]",
				Short: "Serves the examples at http://localhost:8080/",
				Long: "Starts an origin and proxies of every kind in this process, on loopback, and serves the examples of\n" +
					"Caddyfile.example in front of them, with an admin API of its own. It changes nothing on this machine: no trust\n" +
					"store, no saved config.\n\n" +
					"DEMO_PORT (8080) and DEMO_ADMIN_PORT (2020) choose its ports.\n\n" +
					"With --check it takes free ports, runs every route itself, prints what came of it, and exits with 0 only if\n" +
					"everything is as it should be.",
				Args: cobra.NoArgs,
				RunE: func(cmd *cobra.Command, _ []string) error {
					cmd.SilenceUsage = true
					return runDemo(cmd.Context(), example, check, cmd.OutOrStdout())
				},
			}
			demo.Flags().BoolVar(&check, "check", false, "run every route, print a table, exit")
			cmd.AddCommand(demo)
		},
	})
}
