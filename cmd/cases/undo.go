package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A change undoes the fix of a case: in the files named, blocks of text are replaced.
//
// In undo/ID.undo it is written as
//
//	why: what the code does without its fix
//	file: tunnel/connect.go
//	- a line that is there
//	- and the next
//	+ what replaces them
//
// with as many blocks and files as are wanted. A block stands exactly once in its file.
type change struct {
	id, why string
	blocks  []block
}

type block struct {
	file, old, replacement string
}

// readUndo reads the undo files of some cases, or of all.
func readUndo(dir string, ids []string) (changes []change, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.undo"))
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		names = nil
		for _, id := range ids {
			names = append(names, filepath.Join(dir, id+".undo"))
		}
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := parseUndo(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.id = strings.TrimSuffix(filepath.Base(name), ".undo")
		changes = append(changes, c)
	}
	return changes, nil
}

func parseUndo(text string) (c change, err error) {
	var file string
	var b *block
	n := 0
	for line := range strings.Lines(text) {
		n++
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case verb == "why:":
			c.why = strings.TrimSpace(rest)
		case verb == "file:":
			file, b = strings.TrimSpace(rest), nil
		case strings.TrimSpace(line) == "-" || verb == "-":
			if b == nil || b.replacement != "" {
				c.blocks = append(c.blocks, block{file: file})
				b = &c.blocks[len(c.blocks)-1]
			}
			b.old += lineAfter(line)
		case strings.TrimSpace(line) == "+" || verb == "+":
			if b == nil {
				return c, fmt.Errorf("line %d replaces nothing", n)
			}
			b.replacement += lineAfter(line)
		case strings.TrimSpace(line) == "":
			b = nil
		default:
			return c, fmt.Errorf("line %d is none of why:, file:, - and +", n)
		}
	}
	if c.why == "" || len(c.blocks) == 0 || file == "" {
		return c, errors.New("wants a why:, a file: and a block")
	}
	return c, nil
}

// lineAfter is a line without its sign.
func lineAfter(line string) string {
	return strings.TrimPrefix(strings.TrimPrefix(line[1:], " "), "\r")
}

// apply returns the changed files by name.
func (c change) apply(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, b := range c.blocks {
		text, ok := changed[b.file]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(b.file))); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(b.old)); n != 1 {
			return nil, fmt.Errorf("%s: a block of %s.undo stands there %d times, not once:\n%s", b.file, c.id, n, b.old)
		}
		changed[b.file] = bytes.Replace(text, []byte(b.old), []byte(b.replacement), 1)
	}
	return changed, nil
}

// undoAll undoes one case after the other.
func undoAll(ctx context.Context, root string, ids []string, tests []test) error {
	changes, err := readUndo(filepath.Join(root, "cmd", "cases", "undo"), ids)
	if err != nil {
		return err
	}
	var green []string
	for _, c := range changes {
		red, err := c.try(ctx, root, tests)
		if err != nil {
			return fmt.Errorf("%s: %w", c.id, err)
		}
		if len(red) == 0 {
			green = append(green, c.id)
			fmt.Printf("%s stays green: %s\n", c.id, c.why)
			continue
		}
		fmt.Printf("%s is red: %s\n", c.id, c.why)
		for _, name := range red {
			fmt.Printf("\t%s\n", name)
		}
	}
	fmt.Printf("undone: %d of %d are red\n", len(changes)-len(green), len(changes))
	if len(green) > 0 {
		return fmt.Errorf("green without their fix: %s", strings.Join(green, " "))
	}
	return nil
}

// try runs a case's tests over the change, and returns those that fail, the first of each package.
func (c change) try(ctx context.Context, root string, tests []test) (red []string, err error) {
	tests = slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return !slices.Contains(t.ids, c.id) })
	changed, err := c.apply(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "undo")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range changed {
		from, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		to := filepath.Join(dir, fmt.Sprint(len(overlay.Replace), ".go"))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return nil, err
		}
		overlay.Replace[from] = to
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	r, err := goTest(ctx, root, tests, c.id, "-overlay", file, "-failfast", "-timeout", "2m")
	if err != nil {
		return nil, err
	}
	if r.build.Len() > 0 {
		return nil, fmt.Errorf("does not compile:\n%s", r.build.String())
	}
	return r.failed[c.id], nil
}
