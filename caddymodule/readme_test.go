package caddymodule

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestREADME wants every Caddyfile of the README to adapt, every word of its table in the grammar, and every word of the
// grammar in the table or among those of the http transport, for which the README refers to it.
func TestREADME(t *testing.T) {
	readme := readFile(t, "../README.md")
	blocks := regexp.MustCompile("(?ms)^```caddyfile\n(.*?)^```$").FindAllStringSubmatch(readme, -1)
	if len(blocks) < 2 {
		t.Errorf("%d Caddyfiles found", len(blocks))
	}
	for _, m := range blocks {
		if _, err := adapt(m[1]); err != nil {
			t.Errorf("%v\n%s", err, m[1])
		}
	}
	table := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)").FindAllStringSubmatch(readme, -1) {
		table[m[1]] = true
		if words[m[1]] == nil && tlsWords[m[1]] == nil {
			t.Errorf("the table has %s, which is no word of the grammar", m[1])
		}
	}
	http := httpWords(t)
	for word := range words {
		if !table[word] && !slices.Contains(http, word) {
			t.Errorf("the table does not have %s, which the http transport does not know", word)
		}
	}
	for word := range tlsWords {
		if !slices.Contains(http, word) {
			t.Errorf("%s is nowhere explained", word)
		}
	}
}

// TestWordsOfHTTPTransport wants every word of the http transport in the grammar, or refused with what to write instead.
func TestWordsOfHTTPTransport(t *testing.T) {
	for _, word := range httpWords(t) {
		if words[word] == nil && tlsWords[word] == nil && notBuilt[word] == "" {
			t.Errorf("%s is not known here", word)
		}
	}
}

// httpWords reads the words of the http transport's block out of Caddy's source.
func httpWords(t *testing.T) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/caddyserver/caddy/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(dir)), "modules", "caddyhttp", "reverseproxy", "caddyfile.go")
	source, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, decl := range source.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "UnmarshalCaddyfile" || receiver(f) != "HTTPTransport" {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			words, ok := n.(*ast.SwitchStmt)
			if !ok {
				return true
			}
			for _, clause := range words.Body.List {
				for _, expr := range clause.(*ast.CaseClause).List {
					word, err := strconv.Unquote(expr.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					found = append(found, word)
				}
			}
			return false // those inside are about arguments
		})
	}
	if !slices.Contains(found, "dial_timeout") || len(found) < 25 {
		t.Fatalf("only these words of the http transport were found: %v", found)
	}
	return found
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	name, ok := star.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return name.Name
}
