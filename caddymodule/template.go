package caddymodule

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// A template is a configured value that may hold placeholders. It is split once, when the config loads, so that
// what a placeholder expands to is never looked at again: a value cannot become another component of a URL,
// nor be expanded a second time.
type template struct {
	segments []segment
}

// A segment is a literal, or the key of a placeholder without its braces.
type segment struct {
	text        string
	placeholder bool
}

// parseTemplate splits s at its placeholders. A brace that shall stand for itself is written \{ or \}; a brace
// without its partner stands for itself, as it does elsewhere in Caddy.
func parseTemplate(s string) template {
	var t template
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			t.segments = append(t.segments, segment{text: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '{' || s[i+1] == '}'):
			i++
			lit.WriteByte(s[i])
		case s[i] == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 2 {
				lit.WriteByte('{')
				continue
			}
			flush()
			t.segments = append(t.segments, segment{text: s[i+1 : i+end], placeholder: true})
			i += end
		default:
			lit.WriteByte(s[i])
		}
	}
	flush()
	return t
}

// literal makes a template of a value in which nothing is to be expanded.
func literal(s string) template {
	if s == "" {
		return template{}
	}
	return template{segments: []segment{{text: s}}}
}

func (t template) empty() bool { return len(t.segments) == 0 }

// dynamic reports whether the value holds any placeholder.
func (t template) dynamic() bool {
	for _, s := range t.segments {
		if s.placeholder {
			return true
		}
	}
	return false
}

// whole reports whether the value is one placeholder and nothing else.
func (t template) whole() bool { return len(t.segments) == 1 && t.segments[0].placeholder }

// perRequest returns the first placeholder that only a request can answer. The ones of the environment, of files
// and of this host mean the same for every request, health checks included.
func (t template) perRequest() (key string, ok bool) {
	for _, s := range t.segments {
		if s.placeholder && !hasAnyPrefix(s.text, "env.", "file.", "system.") {
			return s.text, true
		}
	}
	return "", false
}

// mapLiterals returns t with f applied to its literal segments.
func (t template) mapLiterals(f func(string) (string, error)) (template, error) {
	out := template{segments: make([]segment, len(t.segments))}
	for i, s := range t.segments {
		if !s.placeholder {
			var err error
			if s.text, err = f(s.text); err != nil {
				return template{}, err
			}
		}
		out.segments[i] = s
	}
	return out, nil
}

// literalsHave reports whether one of chars stands in what is not a placeholder.
func (t template) literalsHave(chars string) bool {
	for _, s := range t.segments {
		if !s.placeholder && strings.ContainsAny(s.text, chars) {
			return true
		}
	}
	return false
}

// errControl keeps line breaks and NUL, which would end a header line or a C string, out of every expanded value.
var errControl = errors.New("expands to a value with CR, LF or NUL in it")

// expand returns the value for one request. An unknown placeholder, and one that expands to nothing, is an error:
// an empty credential, name or host would reach something else than what was configured.
func (t template) expand(repl *caddy.Replacer) (string, error) {
	if len(t.segments) == 1 && !t.segments[0].placeholder {
		return t.segments[0].text, nil
	}
	var b strings.Builder
	for _, s := range t.segments {
		if !s.placeholder {
			b.WriteString(s.text)
			continue
		}
		if repl == nil {
			return "", fmt.Errorf("placeholder {%s} has nothing to be expanded with", s.text)
		}
		v, known := repl.GetString(s.text)
		switch {
		case !known:
			return "", fmt.Errorf("placeholder {%s} is not known here", s.text)
		case v == "":
			return "", fmt.Errorf("placeholder {%s} is empty%s", s.text, whyEmpty(s.text))
		case strings.ContainsAny(v, "\r\n\x00"):
			return "", fmt.Errorf("placeholder {%s} %w", s.text, errControl)
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

// whyEmpty says what leaves a placeholder empty, where it is Caddy that gives it no error.
func whyEmpty(key string) string {
	switch {
	case strings.HasPrefix(key, "env."):
		return " (Caddy runs without the variable)"
	case strings.HasPrefix(key, "file."):
		return " (Caddy cannot read the file, or nothing is in it)"
	}
	return ""
}

// checkSecretPlaceholders refuses the shape that {file.name} takes in a site block, where Caddy turns it into a
// placeholder for the request's path: the credential would be whatever the client asked for.
func (t template) checkSecretPlaceholders() error {
	for _, s := range t.segments {
		if s.placeholder && strings.HasPrefix(s.text, "http.request.uri.path.file") {
			return fmt.Errorf("{%s} is part of the request's path, not a file's content: Caddy reads {file.name} so in "+
				"site blocks; write the file's absolute path, {file./run/secrets/name}", s.text)
		}
	}
	return nil
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
