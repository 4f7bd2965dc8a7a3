package archtest

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// check returns what breaks the table in a module, one line each with file and line.
func check(module fs.FS) ([]string, error) {
	all, err := sources(module)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, s := range all {
		found = append(found, checkFile(s.files, s.name, s.file)...)
	}
	return found, nil
}

// source is a Go file of the module that is no test.
type source struct {
	name string
	// lines are counted as wc does.
	lines int
	files *token.FileSet
	file  *ast.File
}

func (s source) dir() string { return path.Dir(s.name) }

// sources reads the Go files of a module that are no tests, in order of their names.
func sources(module fs.FS) ([]source, error) {
	var all []source
	files := token.NewFileSet()
	err := fs.WalkDir(module, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{name: name, lines: bytes.Count(text, []byte{'\n'}), files: files, file: file})
		return nil
	})
	return all, err
}

// skipped names directories that are not part of the module.
func skipped(name string) bool {
	base := path.Base(name)
	return name != "." && (base == "testdata" || base == "tools" || base == "node_modules" ||
		strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
}

func checkFile(files *token.FileSet, name string, file *ast.File) []string {
	dir := path.Dir(name)
	layer, ok := ruleOf(dir)
	if !ok {
		return []string{name + ": the import table has no rule for " + dir}
	}
	var found []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused it
		}
		if why := cmp.Or(forbidden(layer, imported), reserved(dir, imported)); why != "" {
			found = append(found, fmt.Sprintf("%s: %s may not import %s: %s",
				files.Position(spec.Pos()), layer.dir, imported, why))
		}
	}
	if layer.pure {
		found = append(found, clockCalls(files, layer.dir, file)...)
	}
	return found
}

// ruleOf finds the rule with the longest directory that holds dir.
func ruleOf(dir string) (rule, bool) {
	var best rule
	for _, r := range table {
		if within(dir, r.dir) && len(r.dir) > len(best.dir) {
			best = r
		}
	}
	return best, best.dir != ""
}

// forbidden says why a layer may not import a path; "" = it may.
func forbidden(layer rule, imported string) string {
	if ours, ok := strings.CutPrefix(imported, module); ok {
		return forbiddenOurs(layer, ours)
	}
	switch {
	case layer.pure && strings.Contains(strings.Split(imported, "/")[0], "."):
		return "it is pure and takes no third-party code"
	case layer.pure && below(imported, impure):
		return "it is pure and knows nothing of the outside world"
	case !layer.wire && below(imported, wirePaths):
		return "protobuf and gRPC stop at the edges"
	}
	return ""
}

// reserved says why a package may not import a path, whatever its layer may; "" = it may.
func reserved(dir, imported string) string {
	ours, _ := strings.CutPrefix(imported, module)
	switch {
	case below(imported, badgerPaths) && !slices.Contains(badgerDirs, dir):
		return "only internal/store/badgerkv and the rooms of its files may assume Badger"
	case below(imported, postgresPaths) && !slices.Contains(postgresDirs, dir):
		return "only internal/store/pgkv may assume PostgreSQL"
	case slices.Contains(testDirs, ours) && !slices.Contains(testDirs, dir):
		return "only tests may"
	}
	return ""
}

func forbiddenOurs(layer rule, ours string) string {
	target, ok := ruleOf(ours)
	if !ok {
		return "the import table has no rule for it"
	}
	if target.dir == layer.dir {
		return ""
	}
	if by, guarded := onlyFrom[target.dir]; guarded && !slices.Contains(by, layer.dir) {
		return "only " + strings.Join(by, ", ") + " may"
	}
	// The rule of a directory does not cover a longer one with a rule of its own,
	// but for the types of the machine, which are part of runtime's interface.
	if layer.all || slices.Contains(layer.may, target.dir) ||
		(target.dir == machineDir && slices.Contains(layer.may, "internal/runtime")) {
		return ""
	}
	return "the import table does not allow it"
}

// clockCalls finds uses of the clock through package time under any name.
func clockCalls(files *token.FileSet, layer string, file *ast.File) []string {
	name := importName(file, "time")
	if name == "" {
		return nil
	}
	if name == "." {
		return []string{fmt.Sprintf("%s: %s may not dot-import time", files.Position(file.Pos()), layer)}
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == name && clock[selector.Sel.Name] {
			found = append(found, fmt.Sprintf("%s: %s may not use time.%s",
				files.Position(n.Pos()), layer, selector.Sel.Name))
		}
		return true
	})
	return found
}

// importName is the name under which a file knows a standard package; "" = it
// does not.
func importName(file *ast.File, pkg string) string {
	for _, spec := range file.Imports {
		switch {
		case spec.Path.Value != strconv.Quote(pkg):
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return pkg
		}
	}
	return ""
}

// within reports whether dir is parent or below it.
func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

func below(imported string, parents []string) bool {
	return slices.ContainsFunc(parents, func(p string) bool { return within(imported, p) })
}
