package caddymodule

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// secretForms are all shapes in which the bed's password could show.
var secretForms = func() []string {
	quoted, _ := json.Marshal(bedPassword)
	return []string{
		bedPassword,
		strings.Trim(string(quoted), `"`),
		url.QueryEscape(bedPassword),
		url.PathEscape(bedPassword),
		url.UserPassword(bedUser, bedPassword).String(),
		base64.StdEncoding.EncodeToString([]byte(bedUser + ":" + bedPassword)),
		base64.StdEncoding.EncodeToString([]byte(bedPassword)),
		hex.EncodeToString([]byte(bedPassword)),
	}
}()

// findSecret returns the form of the bed's password that text holds; empty: none.
func findSecret(text string) string {
	for _, form := range secretForms {
		if strings.Contains(text, form) {
			return form
		}
	}
	return ""
}

// startGuarded is startCaddy, and fails the test if anything it logged until it had stopped holds the bed's password.
func startGuarded(t *testing.T, site string) *server {
	t.Helper()
	t.TempDir() // first, so that what it holds outlives the check
	var s *server
	t.Cleanup(func() {
		if s == nil {
			return
		}
		lines := 0
		for line := range strings.Lines(s.logs()) {
			lines++
			if printsConfig(line) {
				continue
			}
			if form := findSecret(line); form != "" {
				t.Errorf("the log holds the password as %q: %s", form, line)
			}
		}
		if lines == 0 {
			t.Error("nothing was logged")
		}
	})
	s = startCaddy(t, site)
	return s
}

// printsConfig reports whether the entry is the one in which Caddy itself prints its whole config at level DEBUG. It
// holds what was written there as plain text, which Provision warns of.
func printsConfig(line string) bool {
	return strings.Contains(line, `"logger":"http.auto_https","msg":"adjusted config"`)
}
