package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A test is a top-level test with cases among its subtests.
type test struct {
	dir  string // of its package, from the root
	name string
	ids  []string // of its cases
}

// idPattern finds the ids that a subtest's name begins with: mostly one.
var idPattern = regexp.MustCompile(`^(?:[CSTPHBKV]\d\d_)+`)

func idsOf(name string) []string {
	return strings.FieldsFunc(idPattern.FindString(name), func(r rune) bool { return r == '_' })
}

// findTests finds the tests of cases in the source: those with string literals that begin with an id. An id anywhere
// else in a test file would be a test that nobody finds, and is an error.
func findTests(root string) (tests []test, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && base != "." && base != ".." && (base[0] == '.' || base == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		found, err := testsIn(name, filepath.ToSlash(dir))
		tests = append(tests, found...)
		return err
	})
	return tests, err
}

func testsIn(file, dir string) (tests []test, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range parsed.Decls {
		t := test{dir: dir}
		ast.Inspect(decl, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err == nil {
				t.ids = append(t.ids, idsOf(text)...)
			}
			return true
		})
		if len(t.ids) == 0 {
			continue
		}
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Test") || f.Recv != nil {
			return nil, fmt.Errorf("%s: names case %s outside of a top-level test", set.Position(decl.Pos()), t.ids[0])
		}
		slices.Sort(t.ids)
		t.name, t.ids = f.Name.Name, slices.Compact(t.ids)
		tests = append(tests, t)
	}
	return tests, nil
}

// packages are the packages of tests, as the go command wants them.
func packages(tests []test) (dirs []string) {
	for _, t := range tests {
		dirs = append(dirs, "./"+path.Clean(t.dir))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
