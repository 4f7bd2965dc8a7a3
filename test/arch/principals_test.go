package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// harmless are the rights that code may give itself. None of them lets a run leave a state that
// waits for an event from outside.
var harmless = []string{"ScopePacksWrite", "ScopeRunsRead", "ScopeRunsWrite"}

// authenticates are the directories that may decide which principal a caller is, and what it may
// do.
var authenticates = []string{"internal/policy", "internal/grpcapi/auth"}

// mayCall lists who may call what makes a principal of something else.
var mayCall = map[string][]string{
	// Anonymous is the principal of every caller while authentication is off.
	"Anonymous": {"internal/runtime/authority.go", "bench/load/local.go"},
	// Answerer is the principal in the journal that answered a question.
	"Answerer": {"internal/runtime/authority.go", "internal/a2a/delegation.go"},
}

// mayIssue are the files that may make a token: `pawl run` is the only caller of its own sidecar,
// which no other process reaches.
var mayIssue = []string{"internal/server/local.go"}

// TestNobodyMintsRights: outside authentication no code makes a principal with the right
// to move a run from outside, or to do everything.
func TestNobodyMintsRights(t *testing.T) {
	t.Parallel()
	const root = "../.."
	files, found := 0, 0
	for _, dir := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
			if slices.Contains(authenticates, filepath.ToSlash(filepath.Dir(name))) {
				return nil
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, fault := range mints(name, file, &found) {
				t.Errorf("%s: %s", set.Position(fault.at), fault.what)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 || found < 3 {
		t.Errorf("looked at %d files with %d principals: the test no longer sees them", files, found)
	}
}

type minted struct {
	at   token.Pos
	what string
}

// mints finds what a file must not do; found counts the principals that it looks at.
func mints(name string, file *ast.File, found *int) (faults []minted) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			kind := lastName(n.Type)
			if kind == "Principal" {
				*found++
			}
			if kind != "Principal" && (kind != "Token" || slices.Contains(mayIssue, name)) {
				return true
			}
			for _, scope := range scopesOf(n) {
				if !slices.Contains(harmless, lastName(scope)) {
					faults = append(faults, minted{scope.Pos(), "makes a " + kind + " with rights that only authentication gives"})
				}
			}
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				at, ok := to.(*ast.SelectorExpr)
				if ok && at.Sel.Name == "Scopes" && strings.HasSuffix(strings.ToLower(lastName(at.X)), "principal") {
					faults = append(faults, minted{to.Pos(), "changes somebody's rights"})
				}
			}
		case *ast.CallExpr:
			if callers, guarded := mayCall[lastName(n.Fun)]; guarded && !slices.Contains(callers, name) {
				faults = append(faults, minted{n.Pos(), "calls " + lastName(n.Fun)})
			}
		}
		return true
	})
	return faults
}

// scopesOf are the operands of the field Scopes of a literal.
func scopesOf(lit *ast.CompositeLit) []ast.Expr {
	for _, element := range lit.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return lit.Elts
		}
		if lastName(pair.Key) == "Scopes" {
			return operands(pair.Value)
		}
	}
	return nil
}

func operands(e ast.Expr) []ast.Expr {
	if or, ok := e.(*ast.BinaryExpr); ok && or.Op == token.OR {
		return append(operands(or.X), operands(or.Y)...)
	}
	return []ast.Expr{e}
}

// lastName is the name of an identifier, with or without its package.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestMintsAreSeen: what the test above is there for does not pass it.
func TestMintsAreSeen(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`runtime.Principal{Subject: "pawl", Scopes: runtime.ScopeRunsRead | runtime.ScopeEventsExternal}`,
		`policy.Principal{"pawl", 255}`, `Principal{Scopes: rights}`, `door.Token{Scopes: runtime.ScopeAdmin}`,
		`runtime.Anonymous()`, `runtime.Answerer("alice", nil)`,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nvar _ = "+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		if len(mints("internal/x/x.go", file, &found)) == 0 {
			t.Errorf("%s is not seen", body)
		}
	}
}
