package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a file of the module with one guard taken out.
type mutant struct {
	area area
	// name is file, function and condition: it stays the same when lines move.
	name string
	file string
	// source is the whole file, changed.
	source []byte
}

// find lists the mutants of all areas and texts; root is the module's directory.
func find(root string) ([]mutant, error) {
	var all []mutant
	for _, a := range areas {
		found, err := inArea(root, a)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, t := range texts {
		m, err := t.mutant(root)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return numbered(all), nil
}

// numbered tells guards of one function with the same condition apart.
func numbered(all []mutant) []mutant {
	seen := map[string]int{}
	for i := range all {
		name := all[i].name
		if seen[name]++; seen[name] > 1 {
			all[i].name = fmt.Sprintf("%s #%d", name, seen[name])
		}
	}
	return all
}

func inArea(root string, a area) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(root, a.dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var found []mutant
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || a.files != nil && !slices.Contains(a.files, name) {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		more, err := inFile(a, a.dir+"/"+name, source)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// inFile lists the mutants of one source.
func inFile(a area, file string, source []byte) ([]mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []mutant
	for _, d := range tree.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		for _, cond := range guards(function.Type, function.Body) {
			from, to := set.Position(cond.Pos()).Offset, set.Position(cond.End()).Offset
			text := strings.Join(strings.Fields(string(source[from:to])), " ")
			// The condition is still evaluated by the compiler alone: what it declares and imports stays used.
			changed := slices.Concat(source[:from], []byte("false && ("), source[from:to], []byte(")"), source[to:])
			found = append(found, mutant{area: a, name: file + ": " + function.Name.Name + ": " + text, file: file, source: changed})
		}
	}
	return found, nil
}

// guards lists the conditions in a body behind which it refuses. A literal function is judged by its own results.
func guards(of *ast.FuncType, body *ast.BlockStmt) (conds []ast.Expr) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			conds = append(conds, guards(n.Type, n.Body)...)
			return false
		case *ast.IfStmt:
			if refuses(of, n.Body.List) && !passesOn(n.Cond) {
				conds = append(conds, n.Cond)
			}
		case *ast.SwitchStmt:
			conds = append(conds, casesOf(of, n)...)
		}
		return true
	})
	return conds
}

// casesOf lists the conditions of a switch without a value behind which it refuses.
func casesOf(of *ast.FuncType, s *ast.SwitchStmt) (conds []ast.Expr) {
	if s.Tag != nil {
		return nil
	}
	for _, c := range s.Body.List {
		clause, ok := c.(*ast.CaseClause)
		if ok && len(clause.List) == 1 && refuses(of, clause.Body) && !passesOn(clause.List[0]) {
			conds = append(conds, clause.List[0])
		}
	}
	return conds
}

// refuses reports whether statements end with a return whose last value is no success.
func refuses(of *ast.FuncType, list []ast.Stmt) bool {
	if len(list) == 0 || of.Results == nil || len(of.Results.List) == 0 {
		return false
	}
	back, ok := list[len(list)-1].(*ast.ReturnStmt)
	if !ok || len(back.Results) == 0 {
		return false
	}
	last := back.Results[len(back.Results)-1]
	switch typeName(of.Results.List[len(of.Results.List)-1].Type) {
	case "error", "Refusal", "Denial", "Denied", "Fault":
		return !isNamed(last, "nil")
	case "bool":
		return isNamed(last, "false")
	case "string":
		// The name of what does not hold it, as of a budget.
		literal, ok := last.(*ast.BasicLit)
		return ok && literal.Value != `""`
	default:
		return false
	}
}

// typeName is the last word of a type.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

func isNamed(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

// passesOn reports whether a condition only tests that a call failed. The guards of that call are mutants of their own.
func passesOn(cond ast.Expr) bool {
	b, ok := cond.(*ast.BinaryExpr)
	return ok && b.Op == token.NEQ && isNamed(b.X, "err") && isNamed(b.Y, "nil")
}

// mutant replaces the text, which must stand once in its file.
func (t text) mutant(root string) (mutant, error) {
	source, err := os.ReadFile(filepath.Join(root, t.file))
	if err != nil {
		return mutant{}, err
	}
	if n := strings.Count(string(source), t.old); n != 1 {
		return mutant{}, fmt.Errorf("%s: %s: the text stands %d times in the file, want once: %q", t.file, t.name, n, t.old)
	}
	dir := filepath.ToSlash(filepath.Dir(t.file))
	at := area{dir: dir, tests: []string{dir}, postgres: true}
	switch t.file {
	case membersSQL:
		at.tests = append(at.tests, "internal/cluster/membership")
	case starters:
		at.tests, at.postgres = append(at.tests, "internal/runtime", "internal/a2a"), false
	}
	return mutant{
		area: at,
		name: t.file + ": " + t.name, file: t.file,
		source: []byte(strings.Replace(string(source), t.old, t.with, 1)),
	}, nil
}
