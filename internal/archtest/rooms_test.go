package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The way of one transition, and what its rooms may ask of it.
const (
	wayDir = "internal/runtime"
	// wayType is the way as a whole, which no room names outside its tests.
	wayType = "Engine"
	// maxDoor is the number of methods of an interface that a room declares.
	maxDoor = 7
)

// madeOf are what the way is made of: it calls them to decide, they know no run of it.
var madeOf = []string{machineDir, gateDir, programDir, requestDir, historyDir, renderDir, allowDir, accountDir, tariffDir, dialogueDir, effectDir, consentDir}

// outerRooms see the way as the rooms below its directory do.
var outerRooms = []string{"internal/deliver"}

// TestRooms holds the rooms to one direction and to small doors.
func TestRooms(t *testing.T) {
	t.Parallel()
	all, err := sources(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range slices.Concat(circles(layersOf(all)), circles(edgesOf(table)), wayImports(all), lodgers(all), wideDoors(all), missingDocs(all)) {
		t.Error(line)
	}
}

// isRoom reports whether a directory is a room around the way: not the way itself and
// not what the way is made of.
func isRoom(dir string) bool {
	return within(dir, wayDir) && dir != wayDir && !below(dir, madeOf) ||
		slices.ContainsFunc(outerRooms, func(outer string) bool { return within(dir, outer) })
}

// layersOf says which layer of the table imports which others. Two packages can import
// each other's layers without a circle that the compiler sees.
func layersOf(all []source) map[string][]string {
	edges := map[string][]string{}
	for _, s := range all {
		from, _ := ruleOf(s.dir())
		for _, imported := range ours(s.file) {
			if to, ok := ruleOf(imported); ok && to.dir != from.dir {
				edges[from.dir] = append(edges[from.dir], to.dir)
			}
		}
	}
	return edges
}

// edgesOf says what the table itself allows by name. What may import everything is
// held by what it does import.
func edgesOf(rules []rule) map[string][]string {
	edges := map[string][]string{}
	for _, r := range rules {
		for _, to := range r.may {
			if to != r.dir {
				edges[r.dir] = append(edges[r.dir], to)
			}
		}
	}
	return edges
}

// ours are the directories of this module that a file imports.
func ours(file *ast.File) []string {
	var dirs []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if dir, mine := strings.CutPrefix(imported, module); err == nil && mine {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// circles finds one circle for each layer that is first, by name, in one.
func circles(edges map[string][]string) []string {
	var found []string
	done := map[string]bool{}
	for _, start := range slices.Sorted(maps.Keys(edges)) {
		if way := wayBack(edges, start, start, done, map[string]bool{}); way != nil {
			found = append(found, "a circle of rooms: "+strings.Join(append([]string{start}, way...), " -> "))
		}
		done[start] = true
	}
	return found
}

// wayBack is the way from a layer to the goal; nil = there is none. Layers that are
// done have told their circles.
func wayBack(edges map[string][]string, from, goal string, done, seen map[string]bool) []string {
	for _, to := range slices.Compact(slices.Sorted(slices.Values(edges[from]))) {
		if to == goal {
			return []string{to}
		}
		if done[to] || seen[to] {
			continue
		}
		seen[to] = true
		if rest := wayBack(edges, to, goal, done, seen); rest != nil {
			return append([]string{to}, rest...)
		}
	}
	return nil
}

// wayImports finds rooms that the way imports.
func wayImports(all []source) []string {
	var found []string
	for _, s := range all {
		for _, imported := range ours(s.file) {
			if s.dir() == wayDir && isRoom(imported) {
				found = append(found, fmt.Sprintf("%s: the way imports the room %s", s.name, imported))
			}
		}
	}
	return found
}

// lodgers finds rooms that have no row of their own in the table, and so may do what the
// way may.
func lodgers(all []source) []string {
	found := map[string]bool{}
	for _, s := range all {
		if r, ok := ruleOf(s.dir()); isRoom(s.dir()) && ok && !isRoom(r.dir) {
			found["the import table has no rule of its own for the room "+s.dir()] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// wideDoors finds rooms that know the way as a whole, or more of it than they may.
func wideDoors(all []source) []string {
	interfaces := map[string]*ast.InterfaceType{}
	places := map[string]token.Position{}
	var found []string
	for _, s := range all {
		if !isRoom(s.dir()) {
			continue
		}
		found = append(found, wholeWay(s)...)
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if door, ok := spec.Type.(*ast.InterfaceType); ok {
				key := path.Join(s.dir(), spec.Name.Name)
				interfaces[key], places[key] = door, s.files.Position(spec.Pos())
			}
			return true
		})
	}
	for _, key := range slices.Sorted(maps.Keys(interfaces)) {
		n, err := methods(interfaces, key)
		switch {
		case err != nil:
			found = append(found, fmt.Sprintf("%s: %s: %v", places[key], key, err))
		case n > maxDoor:
			found = append(found, fmt.Sprintf("%s: %s has %d methods, a room's interface has at most %d", places[key], key, n, maxDoor))
		}
	}
	return found
}

// wholeWay finds where a file names the way's own type.
func wholeWay(s source) []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != wayType {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == nameOf(s.file, module+wayDir) {
			found = append(found, fmt.Sprintf("%s: a room declares what it needs and does not name %s.%s",
				s.files.Position(n.Pos()), pkg.Name, wayType))
		}
		return true
	})
	return found
}

// nameOf is the name under which a file knows a package; "" = it does not.
func nameOf(file *ast.File, imported string) string {
	if name := importName(file, imported); name != imported {
		return name
	}
	return path.Base(imported)
}

// methods counts an interface's methods with those of what it embeds, which must be of
// the same package, so that they can be counted.
func methods(interfaces map[string]*ast.InterfaceType, key string) (int, error) {
	n := 0
	for _, field := range interfaces[key].Methods.List {
		switch embedded := field.Type.(type) {
		case *ast.FuncType:
			n += len(field.Names)
		case *ast.Ident:
			inner := path.Join(path.Dir(key), embedded.Name)
			if interfaces[inner] == nil {
				continue // a constraint
			}
			more, err := methods(interfaces, inner)
			if err != nil {
				return 0, err
			}
			n += more
		case *ast.SelectorExpr:
			return 0, fmt.Errorf("it embeds %s of another package: list the methods", embedded.Sel.Name)
		}
	}
	return n, nil
}

// missingDocs finds packages whose door does not say what is behind it: each has its
// comment in doc.go and nowhere else.
func missingDocs(all []source) []string {
	documented := map[string]bool{}
	var found []string
	for _, s := range all {
		atDoor := path.Base(s.name) == "doc.go"
		switch {
		case ast.IsGenerated(s.file):
		case s.file.Doc != nil && !atDoor:
			found = append(found, s.name+": the comment of a package stands in its doc.go")
		default:
			documented[s.dir()] = documented[s.dir()] || atDoor && s.file.Doc != nil
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(documented)) {
		if !documented[dir] {
			found = append(found, dir+" has no doc.go that says what it owns, who calls it, what it may import and which invariant it keeps")
		}
	}
	return found
}

// TestRoomsFinds proves that each rule of the rooms can be broken.
func TestRoomsFinds(t *testing.T) {
	t.Parallel()
	imports := func(pkg, dir string) string { return "package " + pkg + "\nimport _ \"" + module + dir + "\"\n" }
	wide := "interface { A(); B(); C(); D(); E(); F(); G()"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"layers in one direction": {files: map[string]string{"internal/pack/a.go": imports("pack", "internal/prompt")}},
		"layers in a circle that no package is in": {
			files: map[string]string{
				"internal/pack/a.go":         imports("pack", "internal/prompt/sub"),
				"internal/prompt/sub/a.go":   "package sub",
				"internal/prompt/other/a.go": imports("other", "internal/policy"),
				"internal/policy/a.go":       imports("policy", "internal/pack/sub"),
				"internal/pack/sub/a.go":     "package sub",
			},
			want: "a circle of rooms: internal/pack -> internal/prompt -> internal/policy -> internal/pack",
		},
		"the way imports the machine": {files: map[string]string{"internal/runtime/a.go": imports("runtime", "internal/runtime/machine/trace")}},
		"the way imports a room":      {files: map[string]string{"internal/runtime/a.go": imports("runtime", "internal/runtime/blob")}, want: "the way imports the room internal/runtime/blob"},
		"the way imports an outer room": {
			files: map[string]string{"internal/runtime/a.go": imports("runtime", "internal/deliver")}, want: "the way imports the room internal/deliver",
		},
		"a door of seven": {files: map[string]string{"internal/deliver/a.go": "package deliver\ntype Way " + wide + " }"}},
		"a door of eight": {
			files: map[string]string{"internal/deliver/a.go": "package deliver\ntype Way " + wide + "; H() }"}, want: "Way has 8 methods",
		},
		"a door of eight in two parts": {
			files: map[string]string{"internal/deliver/a.go": "package deliver\ntype way " + wide + "; more }", "internal/deliver/b.go": "package deliver\ntype more interface { H() }"},
			want:  "way has 8 methods",
		},
		"a door that embeds what cannot be counted": {
			files: map[string]string{"internal/deliver/a.go": "package deliver\nimport \"io\"\ntype way interface { io.Reader }"}, want: "list the methods",
		},
		"a room without a rule": {
			files: map[string]string{"internal/runtime/novel/a.go": "package novel"}, want: "no rule of its own for the room internal/runtime/novel",
		},
		"a wide interface elsewhere": {files: map[string]string{"internal/store/a.go": "package store\ntype Way " + wide + "; H() }"}},
		"the way as a whole": {
			files: map[string]string{"internal/deliver/a.go": "package deliver\nimport rt \"" + module + "internal/runtime\"\ntype B struct { e *rt.Engine }"},
			want:  "does not name rt.Engine",
		},
		"types of the way": {
			files: map[string]string{"internal/deliver/a.go": "package deliver\nimport \"" + module + "internal/runtime\"\nvar a runtime.Answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := mustSources(t, c.files)
			found := slices.Concat(circles(layersOf(all)), wayImports(all), lodgers(all), wideDoors(all))
			if c.want == "" && len(found) != 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
				t.Fatalf("found %q, want %q", found, c.want)
			}
		})
	}
}

// TestDocsFinds proves that the rule of doc.go can be broken.
func TestDocsFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"documented":         {files: map[string]string{"a/a.go": "package a", "a/doc.go": "// Package a is.\npackage a"}},
		"generated":          {files: map[string]string{"a/a.go": "// Code generated by x. DO NOT EDIT.\n\n// Package a is.\npackage a"}},
		"no doc.go":          {files: map[string]string{"a/a.go": "package a"}, want: "a has no doc.go"},
		"no comment":         {files: map[string]string{"a/doc.go": "package a"}, want: "a has no doc.go"},
		"the wrong file":     {files: map[string]string{"a/doc.go": "// Package a is.\npackage a", "a/b.go": "// Package a is.\npackage a"}, want: "a/b.go: the comment"},
		"only half is ours":  {files: map[string]string{"a/a.go": "// Code generated by x. DO NOT EDIT.\n\npackage a", "a/b.go": "package a"}, want: "a has no doc.go"},
		"tests need no door": {files: map[string]string{"a/a_test.go": "package a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := missingDocs(mustSources(t, c.files))
			if c.want == "" && len(found) != 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
				t.Fatalf("found %q, want %q", found, c.want)
			}
		})
	}
}

// TestTableHasNoCircle proves that the table's own circles are found.
func TestTableHasNoCircle(t *testing.T) {
	t.Parallel()
	found := circles(edgesOf([]rule{{dir: "a", may: []string{"b", "a"}}, {dir: "b", may: []string{"c"}}, {dir: "c", may: []string{"b"}}}))
	if len(found) != 1 || found[0] != "a circle of rooms: b -> c -> b" {
		t.Fatalf("found %q", found)
	}
}
