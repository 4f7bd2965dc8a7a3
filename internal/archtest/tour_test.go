package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// maxTourWords are ten minutes of reading at 200 words a minute.
const maxTourWords = 2000

// TestTourIsTrue: every `file.go: Name` that docs/dev/architecture.md or AGENTS.md points at is declared in that
// file, every other `path/file.go` exists, and the tour can be read in ten minutes.
func TestTourIsTrue(t *testing.T) {
	t.Parallel()
	tour := pointsTrue(t, "../../docs/dev/architecture.md", 20)
	if words := len(strings.Fields(tour)); words > maxTourWords {
		t.Errorf("docs/dev/architecture.md has %d words, %d are ten minutes", words, maxTourWords)
	}
	pointsTrue(t, "../../AGENTS.md", 1)
}

// pointsTrue checks what a page points at, which is that many declarations at least, and
// returns its text.
func pointsTrue(t *testing.T, name string, least int) string {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]map[string]bool{}
	points := regexp.MustCompile("`([a-z0-9_/]+/[a-z0-9_]+\\.go)(?:: ([A-Za-z.]+))?`").FindAllStringSubmatch(string(page), -1)
	named := 0
	for _, point := range points {
		file, name := point[1], point[2]
		if declared[file] == nil {
			declared[file] = declarations(t, file)
		}
		if name != "" && !declared[file][name] {
			t.Errorf("%s declares no %s", file, name)
		}
		if name != "" {
			named++
		}
	}
	if named < least {
		t.Errorf("%s points at %d declarations, want %d at least", name, named, least)
	}
	return string(page)
}

// declarations are the names that a file declares: functions, Type.method, types, constants.
func declarations(t *testing.T, name string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	file, err := parser.ParseFile(token.NewFileSet(), "../../"+name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return names
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names[owner(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
	return names
}

// owner is "Type." for a method, else "".
func owner(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch x := typ.(type) {
	case *ast.Ident:
		return x.Name + "."
	case *ast.IndexExpr:
		return x.X.(*ast.Ident).Name + "."
	}
	return ""
}
