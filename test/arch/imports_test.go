package arch

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// TestImports holds the module to its rules.
func TestImports(t *testing.T) {
	t.Parallel()
	found, looked, err := check(os.DirFS("../.."))
	if err != nil || looked < 500 {
		t.Fatalf("%d files, %v", looked, err)
	}
	for _, line := range found {
		t.Error(line)
	}
}

// TestRulesAreOfThisModule: a rule about a directory that is gone holds nothing.
func TestRulesAreOfThisModule(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		for _, dir := range slices.Concat(r.from, r.except, r.not) {
			if dir == "testing" || dir == "database/sql" || strings.Contains(strings.Split(dir, "/")[0], ".") {
				continue
			}
			if _, err := os.Stat("../../" + dir); err != nil {
				t.Errorf("rule %q: %v", r.because, err)
			}
		}
	}
	for dir := range pure {
		if _, err := os.Stat("../../" + dir); err != nil {
			t.Error(err)
		}
	}
}

// TestRulesFind breaks each rule in a module of its own, once for each pair of its paths.
func TestRulesFind(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		for _, from := range r.from {
			for _, not := range r.not {
				if within(from, not) || below(from, r.except) {
					continue
				}
				imported := not
				if !strings.Contains(strings.Split(not, "/")[0], ".") && not != "testing" && not != "database/sql" {
					imported = module + not
				}
				name := from + "/novel/a.go"
				found, _, err := check(fstest.MapFS{name: {Data: []byte("package novel; import _ " + strconv.Quote(imported))}})
				if err != nil || !slices.ContainsFunc(found, func(line string) bool {
					return strings.HasPrefix(line, name) && strings.Contains(line, r.because)
				}) {
					t.Errorf("%s imports %s: found %q, %v", from, imported, found, err)
				}
			}
		}
	}
}

// TestPureFinds proves that a pure package cannot reach the outside world.
func TestPureFinds(t *testing.T) {
	t.Parallel()
	for dir := range pure {
		for _, c := range []struct{ source, want string }{
			{`import _ "` + module + `internal/services"`, "may not import " + module + "internal/services"},
			{`import _ "os/exec"`, "may not import os/exec"},
			{`import _ "context"`, "may not import context"},
			{`import _ "google.golang.org/protobuf/proto"`, "may not import google.golang.org/protobuf/proto"},
			{`import "time"; var x = time.Now()`, "may not use time.Now"},
			{`import tm "time"; func f() { g := tm.Sleep; g(1) }`, "may not use time.Sleep"},
			{`import . "time"; var x = Now()`, "may not dot-import time"},
		} {
			name := dir + "/a.go"
			found, _, err := check(fstest.MapFS{name: {Data: []byte("package a; " + c.source)}})
			if err != nil || !slices.ContainsFunc(found, func(line string) bool { return strings.HasPrefix(line, name) && strings.Contains(line, c.want) }) {
				t.Errorf("%s: %s: found %q, %v", dir, c.source, found, err)
			}
		}
	}
}

// TestCheckAllows proves that the check does not fail for everything.
func TestCheckAllows(t *testing.T) {
	t.Parallel()
	found, looked, err := check(fstest.MapFS{
		"internal/runtime/machine/a.go":      {Data: []byte(`package machine; import "time"; var d = time.Second`)},
		"internal/runtime/machine/a_test.go": {Data: []byte(`package machine; import _ "os"`)},
		"internal/grpcapi/a.go": {Data: []byte(`package grpcapi; import (
			_ "context"
			_ "google.golang.org/grpc"
			_ "` + module + `gen/go/pawl/v1"
			_ "` + module + `internal/runtime"
			_ "` + module + `internal/runtime/machine"
		)`)},
		"internal/store/codec/a.go": {Data: []byte(`package codec; import _ "` + module + `internal/store/storagepb"`)},
		"internal/server/a.go":      {Data: []byte(`package server; import _ "` + module + `internal/store"`)},
		"tools/a.go":                {Data: []byte(`package nothing like Go`)},
		".hidden/a.go":              {Data: []byte(`package nothing like Go`)},
	})
	if err != nil || looked != 4 || len(found) != 0 {
		t.Fatalf("%d files, found %q, error %v", looked, found, err)
	}
}

// check returns what breaks the rules in a module, one line each with file and line, and the
// number of files that it read.
func check(module fs.FS) (found []string, looked int, err error) {
	all, err := sources(module)
	for _, s := range all {
		found = append(found, checkFile(s)...)
	}
	return found, len(all), err
}

func checkFile(s source) []string {
	var found []string
	add := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s ", s.files.Position(n.Pos()), s.dir())+fmt.Sprintf(format, args...))
	}
	root, may, isPure := pureRule(s.dir())
	for _, spec := range s.file.Imports {
		full, _ := strconv.Unquote(spec.Path.Value) // The parser has refused what is no string.
		imported := strings.TrimPrefix(full, module)
		for _, r := range rules {
			if below(s.dir(), r.from) && !below(s.dir(), r.except) && below(imported, r.not) {
				add(spec, "may not import %s: %s", full, r.because)
			}
		}
		ours, thirdParty := imported != full, strings.Contains(strings.Split(full, "/")[0], ".")
		if isPure && (ours && !within(imported, root) && !slices.Contains(may, imported) || !ours && (thirdParty || below(full, impure))) {
			add(spec, "may not import %s: it is pure", full)
		}
	}
	if name := importName(s.file, "time"); isPure && name != "" {
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == name && clock[selector.Sel.Name] {
				add(n, "may not use time.%s: it is pure", selector.Sel.Name)
			}
			return true
		})
		if name == "." {
			add(s.file, "may not dot-import time: it is pure")
		}
	}
	return found
}

// pureRule returns the longest directory of the pure ones that holds a package, and what the
// package may import of this module besides.
func pureRule(dir string) (best string, may []string, ok bool) {
	for parent := range pure {
		if within(dir, parent) && len(parent) > len(best) {
			best = parent
		}
	}
	return best, pure[best], best != ""
}
