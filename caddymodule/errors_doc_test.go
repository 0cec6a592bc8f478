package caddymodule

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docErrors is what docs/errors.md says of one code.
type docErrors struct{ stage, status, again string }

var docErrorsRow = regexp.MustCompile("^\\| `([a-z_0-9]+)` \\| ([a-z_]+) \\| ([^|]+) \\| ([^|]+) \\| [^|]+ \\| [^|]+ \\|$")

// TestErrorsDoc compares docs/errors.md with the codes that stand in the source, and with what the mapper makes of them.
func TestErrorsDoc(t *testing.T) {
	text, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]docErrors{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		m := docErrorsRow.FindStringSubmatch(line)
		switch {
		case m == nil && strings.HasPrefix(line, "| `"):
			t.Errorf("not a row: %s", line)
		case m == nil:
		case rows[m[1]] != docErrors{}:
			t.Errorf("%s stands there twice", m[1])
		default:
			rows[m[1]] = docErrors{m[2], m[3], m[4]}
		}
	}

	inSource := map[string]bool{}
	for _, code := range append(constants(t, "../tunnel/errors.go"), constants(t, "../body/errors.go")...) {
		inSource[code] = true
	}
	for _, code := range constants(t, "../tlsuser/errors.go") {
		inSource["proxy_"+code], inSource["origin_"+code] = true, true
	}
	for _, code := range ownCodes(t) {
		inSource[code] = true
	}
	for _, code := range slices.Sorted(maps.Keys(inSource)) {
		if _, ok := rows[code]; !ok {
			t.Errorf("docs/errors.md has no row for %s", code)
		}
	}
	for code := range rows {
		if !inSource[code] {
			t.Errorf("docs/errors.md has a row for %s, which nothing reports", code)
		}
	}

	for _, tt := range mapperCases {
		row := rows[tt.code]
		again := "GET"
		if tt.retry {
			again = "any"
		}
		if row.stage != tt.stage || !strings.Contains(row.status, strconv.Itoa(tt.status)) || !strings.Contains(row.again, again) {
			t.Errorf("%s (%s): docs/errors.md says %+v; it is %s, %d, %s", tt.code, tt.name, row, tt.stage, tt.status, again)
		}
	}
}

// constants are the values of a file's constants of the type Code.
func constants(t *testing.T, file string) (values []string) {
	t.Helper()
	parsed, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Code" {
			values = append(values, stringIn(spec.Values[0])...)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants of the type Code", file)
	}
	return values
}

// ownCodes are the codes that this package gives: as the field Code of an Error, or as the first argument of configError.
func ownCodes(t *testing.T) (codes []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
					codes = append(codes, stringIn(n.Value)...)
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Code" && i < len(n.Rhs) {
						codes = append(codes, stringIn(n.Rhs[i])...)
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "configError" {
					codes = append(codes, stringIn(n.Args[0])...)
				}
			}
			return true
		})
	}
	return codes
}

// stringIn is the value of a string literal; other expressions have none.
func stringIn(expr ast.Expr) []string {
	lit, ok := expr.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return nil
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil {
		return nil
	}
	return []string{value}
}
