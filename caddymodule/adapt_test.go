package caddymodule

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var update = flag.Bool("update", false, "write the JSON of golden files that have none or another")

// TestAdapt adapts every golden file: a Caddyfile, a line of dashes, and the JSON it becomes or a part of the error
// that it gives.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, ok := strings.Cut(string(data), "----------\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			want = strings.TrimSpace(want)
			got, err := adapt(input)
			if isError := strings.HasPrefix(filepath.Base(file), "error_") || want != "" && !strings.HasPrefix(want, "{"); isError {
				if err == nil {
					t.Fatalf("adapted to %s, want an error with %q", got, want)
				}
				if want == "" || !strings.Contains(err.Error(), want) {
					t.Fatalf("error is\n%s\nwant one with\n%s", err, want)
				}
				if !strings.Contains(err.Error(), "Caddyfile:") && !strings.Contains(err.Error(), "upstream address scheme") {
					t.Errorf("error names no file and line: %s", err)
				}
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error holds a password: %s", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != want && *update {
				if err := os.WriteFile(file, []byte(input+"----------\n"+got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Fatalf("adapted to\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func adapt(caddyfile string) (string, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	out, _, err := adapter.Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = json.Indent(&b, out, "", "\t")
	return b.String(), err
}

// TestEveryWordHasAGoldenFile keeps the golden files complete: every word of the grammar is in one of them.
func TestEveryWordHasAGoldenFile(t *testing.T) {
	var all strings.Builder
	files, _ := filepath.Glob("testdata/adapt/*.caddyfiletest")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		input, _, _ := strings.Cut(string(data), "----------\n")
		all.WriteString(input)
	}
	fields := make(map[string]bool)
	for f := range strings.FieldsSeq(all.String()) {
		fields[f] = true
	}
	for word := range words {
		if !fields[word] {
			t.Errorf("no golden file has the word %s", word)
		}
	}
	for word := range tlsWords {
		if !fields[word] {
			t.Errorf("no golden file has the word %s", word)
		}
	}
}
