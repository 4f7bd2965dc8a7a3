package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// attributesAt maps a method of a logger, and a function that adds attributes to a log line, to the
// position of its first attribute.
var attributesAt = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Log": 3, "With": 0,
	// Helpers.
	"abandon": 2, "line": 3,
}

// TestLogAttributes: docs/operations/troubleshooting.md has a row for each attribute of the log, and no
// other row. So one thing has one name, and another spelling of it fails here.
func TestLogAttributes(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(troubleshooting)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(raw), logAttributes)
	if !ok {
		t.Fatalf("%s has no part %q", troubleshooting, logAttributes)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			if name = strings.Trim(name, "`"); rows[name] {
				t.Errorf("%s: two rows for %q", troubleshooting, name)
			}
			rows[strings.Trim(name, "`")] = true
		}
	}
	used := map[string]string{}
	for _, top := range []string{"../../internal", "../../cmd/sidecar", "../../clients/go"} {
		collectAttributes(t, top, used)
	}
	if len(used) < 40 {
		t.Fatalf("only %d attributes found in the code", len(used))
	}
	for name, at := range used {
		if !rows[name] {
			t.Errorf("%s logs the attribute %q: use a name of the table in docs/operations/troubleshooting.md, or add a row", at, name)
		}
	}
	for name := range rows {
		if used[name] == "" {
			t.Errorf("docs/operations/troubleshooting.md has a row for the attribute %q, which no code logs", name)
		}
	}
}

// collectAttributes adds the names of the attributes that the product code below top logs, each with
// its position.
func collectAttributes(t *testing.T, top string, used map[string]string) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"demo", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			for _, name := range attributesOf(node) {
				used[name] = files.Position(node.Pos()).String()
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// attributesOf returns the names of attributes in a call of a logger or of a helper, or in a list of
// attributes ([]any) that begins with a name.
func attributesOf(node ast.Node) []string {
	switch node := node.(type) {
	case *ast.CallExpr:
		method, ok := node.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		at, ok := attributesAt[method.Sel.Name]
		if !ok || method.Sel.Name != "abandon" && method.Sel.Name != "line" && !isLogger(method.X) || len(node.Args) <= at {
			return nil
		}
		return append(namesIn(node.Args[at:]), appended(node.Args[at])...)
	case *ast.CompositeLit:
		if list, ok := node.Type.(*ast.ArrayType); ok && len(node.Elts) > 0 && len(node.Elts)%2 == 0 {
			if of, ok := list.Elt.(*ast.Ident); ok && of.Name == "any" {
				return namesIn(node.Elts)
			}
		}
	case *ast.ValueSpec:
		// The names of attributes that are constants, as in telemetry.
		for i, name := range node.Names {
			if strings.HasSuffix(name.Name, "Attr") && i < len(node.Values) {
				return namesIn(node.Values[i : i+1])
			}
		}
	}
	return nil
}

// appended returns the names in append(attributes, name, value...).
func appended(x ast.Expr) []string {
	call, ok := x.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "append" {
		return nil
	}
	return namesIn(call.Args[1:])
}

// namesIn returns the literals at even positions.
func namesIn(list []ast.Expr) []string {
	var names []string
	for i := 0; i < len(list); i += 2 {
		if l, ok := list[i].(*ast.BasicLit); ok && l.Kind == token.STRING {
			if name, err := strconv.Unquote(l.Value); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}
