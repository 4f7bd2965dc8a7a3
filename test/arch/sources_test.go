package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// source is a Go file of the module that is no test.
type source struct {
	name  string
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
		all = append(all, source{name: name, files: files, file: file})
		return nil
	})
	return all, err
}

// skipped reports whether a directory is not part of the module.
func skipped(name string) bool {
	base := path.Base(name)
	return name != "." && (base == "testdata" || base == "tools" || base == "node_modules" ||
		strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
}

// importName returns the name under which a file knows a package; "" = it does not import it.
func importName(file *ast.File, pkg string) string {
	for _, spec := range file.Imports {
		switch {
		case spec.Path.Value != strconv.Quote(pkg):
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return path.Base(pkg)
		}
	}
	return ""
}

// within reports whether dir is parent or below it.
func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// below reports whether a path is one of parents or below one.
func below(imported string, parents []string) bool {
	return slices.ContainsFunc(parents, func(p string) bool { return within(imported, p) })
}
