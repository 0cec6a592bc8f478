package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
)

// A step is one line of a script.
type step struct {
	line  int
	text  string
	holds bool // the test may end while it plays
	play  func(*player) error
}

// mustParse parses scripts, and fails the test at a mistake in one.
func mustParse(t testing.TB, scripts ...string) [][]*step {
	t.Helper()
	var all [][]*step
	for nth, text := range scripts {
		steps, err := parse(text)
		if err != nil {
			t.Fatalf("script %d: %v", nth+1, err)
		}
		all = append(all, steps)
	}
	return all
}

func parse(text string) ([]*step, error) {
	var steps []*step
	line := 0
	for text := range strings.Lines(text) {
		line++
		tokens, err := tokenize(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if len(tokens) == 0 {
			continue
		}
		s := &step{line: line, text: strings.TrimSpace(text)}
		if err := s.compile(tokens); err != nil {
			return nil, &departure{s, err}
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// compile finds what the step does.
func (s *step) compile(tokens []token) (err error) {
	verb, args := tokens[0].word, tokens[1:]
	switch verb {
	case "->":
		s.play, s.holds, err = hear(args)
		return err
	case "<-":
		s.play, s.holds, err = say(args)
		return err
	case "tls":
		s.play = handshake(words(args))
		return nil
	case "wait", "quiet":
		if len(args) != 1 {
			return errors.New("wants a duration")
		}
		d, err := time.ParseDuration(args[0].word)
		if err != nil {
			return err
		}
		s.play = func(p *player) error { return p.wait(d) }
		if verb == "quiet" {
			s.play = func(p *player) error { return p.quiet(d) }
		}
		return nil
	}
	if len(args) > 0 {
		return errors.New("wants nothing behind it")
	}
	switch verb {
	case "eof":
		s.play = (*player).eof
	case "close":
		s.play = (*player).close
	case "cut":
		s.play = (*player).cut
	case "reset":
		s.play = (*player).reset
	case "h2":
		s.play = (*player).beginHTTP2
	default:
		return errors.New("is not a step: ->, <-, wait, quiet, eof, close, cut, reset, tls or h2")
	}
	return nil
}

// A token is a word, a field or a string literal.
type token struct {
	word   string // the literal's value, the field's name
	value  string // the field's
	quoted bool   // a literal
	field  bool   // word=value
	times  int    // how often a literal stands here
}

// tokenize takes a line apart, without its comment.
func tokenize(line string) (tokens []token, err error) {
	for {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" || line[0] == '#' {
			return tokens, nil
		}
		t := token{times: 1}
		if digits, rest, found := strings.Cut(line, "*"); found && strings.HasPrefix(rest, `"`) {
			if n, err := strconv.Atoi(digits); err == nil {
				t.times, line = n, rest
			}
		}
		if line[0] != '"' {
			end := strings.IndexFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
			if end < 0 {
				end = len(line)
			}
			t.word, line = line[:end], line[end:]
			t.word, t.value, t.field = strings.Cut(t.word, "=")
		}
		if t.word == "" || t.field && t.value == "" && strings.HasPrefix(line, `"`) {
			literal, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("%w: %s", err, line)
			}
			line = line[len(literal):]
			if literal, err = strconv.Unquote(literal); err != nil {
				return nil, err
			}
			if t.field {
				t.value = literal
			} else {
				t.word, t.quoted = literal, true
			}
		}
		tokens = append(tokens, t)
	}
}

// items joins literals and hex bytes.
func items(tokens []token) ([]byte, error) {
	var out []byte
	for _, t := range tokens {
		if t.quoted {
			out = append(out, strings.Repeat(t.word, t.times)...)
			continue
		}
		b, err := strconv.ParseUint(t.word, 16, 8)
		if err != nil || len(t.word) != 2 || t.field {
			return nil, fmt.Errorf("%q is neither a literal nor two hex digits", t.word)
		}
		out = append(out, byte(b))
	}
	return out, nil
}

func words(tokens []token) (out []string) {
	for _, t := range tokens {
		out = append(out, t.word)
	}
	return out
}
