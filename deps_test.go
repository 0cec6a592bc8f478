package caddytunnel_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/caddytunnel/caddytunnel"

// An edge is one import, or all that begin with it and a slash, with the reason for it. Folders of this module are
// named from the root.
type edge struct{ to, why string }

var (
	wire    = edge{"golang.org/x/net", "framing, header compression and header rules of HTTP"}
	inflate = edge{"github.com/klauspost/compress", "gzip, deflate and zstd"}
	brotli  = edge{"github.com/andybalholm/brotli", "br"}
	peers   = edge{"testbed", "origins and proxies to test against"}
	caddy   = edge{"github.com/caddyserver/caddy/v2", "the host"}
	rooms   = []edge{
		{"body", "guards what it returns"}, {"h1c", "speaks HTTP/1.1"}, {"h2c", "speaks HTTP/2"},
		{"pool", "keeps its connections"}, {"tlsuser", "does TLS to the origin"}, {"tunnel", "reaches the origin"},
	}
)

// imports is the import table: what each folder's packages may import besides the standard library. A folder that has
// Go files and no row here is an error.
var imports = map[string][]edge{
	"":       {{"caddymodule", "importing the root registers the module"}},
	"pool":   {},
	"tunnel": {{"tlsuser", "TLS to proxies"}, {"h2c", "CONNECT over HTTP/2"}, wire},

	"tlsuser": {},
	"h1c":     {wire},
	"h2c":     {wire},
	"body":    {inflate, brotli},
	"testbed": {wire, inflate, brotli},
	"caddymodule": append([]edge{
		peers, // for the demo
		caddy,
		{"go.uber.org/zap", "Caddy's logger"},
		{"github.com/prometheus/client_golang", "Caddy's metrics"},
		{"go.opentelemetry.io/otel", "Caddy's traces"},
		{"github.com/spf13/cobra", "Caddy's commands"},
		{"github.com/pires/go-proxyproto", "writes PROXY headers"},
		{"github.com/dustin/go-humanize", "reads sizes as Caddy does"},
		{"golang.org/x/net/http", "rules of header values, and of the environment's proxies"},
	}, rooms...),
	"bench": append([]edge{
		peers, {"testbed/peers", "nginx as an origin"},
		inflate, brotli, // the decoders alone, beside body
	}, rooms...),

	"testbed/peers":  {},
	"testbed/leak":   {},
	"testbed/script": {wire},
	"cmd":            {{"", "the module"}, caddy},
	"cmd/bench":      {{"bench", "what it runs"}},
}

// testImports is what test files may import besides: their own package is always allowed.
var testImports = map[string][]edge{
	"*": {
		peers, {"testbed/peers", "real proxies to test against"}, {"testbed/script", "scripted peers to test against"},
		{"testbed/leak", "goroutines that tests leave"}, wire,
	},
	"pool":        {{"h1c", "connections to keep"}, {"h2c", "connections to share"}},
	"h1c":         {{"tlsuser", "reads ahead below TLS"}},
	"caddymodule": {inflate, brotli, {"golang.org/x/sys/unix", "holds ports"}},
	"cmd":         {{"caddymodule", "its configuration"}},
}

func TestImports(t *testing.T) {
	for dir, files := range goFiles(t) {
		row, ok := rowOf(dir)
		if !ok {
			t.Errorf("%s has no row in the import table", dir)
			continue
		}
		for _, f := range files {
			allowed := imports[row]
			if f.isTest {
				allowed = append(append([]edge{{dir, "itself"}}, allowed...), append(testImports["*"], testImports[row]...)...)
			}
			for _, spec := range f.ast.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
					continue // the standard library
				}
				if !permitted(name, allowed) {
					t.Errorf("%s imports %s, which the import table does not allow", f.path, name)
				}
			}
		}
	}
}

// rowOf returns the table's row for a folder: its own, or the nearest above it.
func rowOf(dir string) (string, bool) {
	for row := dir; ; row = path.Dir(row) {
		if _, ok := imports[row]; ok || row == "." || row == "" {
			return row, ok
		}
	}
}

func permitted(name string, allowed []edge) bool {
	for _, e := range allowed {
		if first, _, _ := strings.Cut(e.to, "/"); !strings.Contains(first, ".") {
			if name == path.Join(module, e.to) {
				return true
			}
		} else if name == e.to || strings.HasPrefix(name, e.to+"/") {
			return true
		}
	}
	return false
}

// TestPackageDocs wants one package comment in each package: in doc.go, at the root in plugin.go, and in main.go of
// commands. Libraries have an errors.go beside it.
func TestPackageDocs(t *testing.T) {
	for dir, files := range goFiles(t) {
		home, hasErrors := "doc.go", false
		var docs []string
		for _, f := range files {
			hasErrors = hasErrors || path.Base(f.path) == "errors.go"
			if f.ast.Name.Name == "main" {
				home = "main.go"
			}
			if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
				docs = append(docs, path.Base(f.path))
			}
		}
		if dir == "" {
			home = "plugin.go"
		}
		if len(docs) != 1 || docs[0] != home {
			t.Errorf("package comments of %q are in %v, want one in %s", dir, docs, home)
		}
		switch dir {
		case "pool", "tunnel", "tlsuser", "h1c", "h2c", "body", "testbed":
			if !hasErrors {
				t.Errorf("%s has no errors.go", dir)
			}
		}
	}
}

func TestFileSizes(t *testing.T) {
	const most = 400
	for _, files := range goFiles(t) {
		for _, f := range files {
			if lines := bytes.Count(f.source, []byte("\n")); lines > most && !ast.IsGenerated(f.ast) {
				t.Errorf("%s has %d lines, more than %d", f.path, lines, most)
			}
		}
	}
}

// TestSubtestNames wants names that 'go test -run' can be given as they stand.
func TestSubtestNames(t *testing.T) {
	for _, files := range goFiles(t) {
		for _, f := range files {
			if !f.isTest {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 2 {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || method.Sel.Name != "Run" {
					return true
				}
				ast.Inspect(call.Args[0], func(n ast.Node) bool {
					if inner, ok := n.(*ast.CallExpr); ok {
						format, ok := inner.Fun.(*ast.SelectorExpr)
						return ok && format.Sel.Name == "Sprintf" // others may be there to replace spaces
					}
					if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
						t.Errorf("%s: the subtest name %s has a space", f.path, lit.Value)
					}
					return true
				})
				return true
			})
		}
	}
}

type goFile struct {
	path   string // from the root, with slashes
	isTest bool
	source []byte
	ast    *ast.File
}

// goFiles parses the repository's Go files, of all systems and build tags, by folder.
func goFiles(t *testing.T) map[string][]goFile {
	t.Helper()
	found := map[string][]goFile{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		if d.IsDir() {
			if base := d.Name(); name != "." && (base == "testdata" || base[0] == '.' || base[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(slashed, ".go") {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), slashed, source, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(path.Dir(slashed), ".")
		found[dir] = append(found[dir], goFile{slashed, strings.HasSuffix(slashed, "_test.go"), source, parsed})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found[""]) == 0 {
		t.Fatal("no Go files found at the root")
	}
	return found
}
