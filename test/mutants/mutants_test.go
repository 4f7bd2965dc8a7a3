package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const module = "../.."

// TestEachGuardIsThere: every text of the list stands once in its file, every reason names a guard, and no area is empty.
func TestEachGuardIsThere(t *testing.T) {
	t.Parallel()
	all, err := find(module)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseReasons(survivors, all); err != nil {
		t.Error(err)
	}
	if len(all) < 100 {
		t.Errorf("%d guards, want 100 at the least", len(all))
	}
	for _, a := range areas {
		if !slices.ContainsFunc(all, func(m mutant) bool { return filepath.ToSlash(filepath.Dir(m.file)) == a.dir }) {
			t.Errorf("no guard is found in %s", a.dir)
		}
	}
	names := map[string]bool{}
	for _, m := range all {
		if names[m.name] {
			t.Errorf("two guards are called %q", m.name)
		}
		names[m.name] = true
	}
}

// TestWhatIsAGuard: a condition behind which a function refuses, and no other.
func TestWhatIsAGuard(t *testing.T) {
	t.Parallel()
	const source = `package p
func f(n int) error {
	if n > 3 { return errLarge }
	if n > 2 { return nil }
	if err := g(); err != nil { return err }
	switch {
	case n < 0: return errSmall
	case n == 0: n++
	}
	h := func() bool { if n == 1 { return false }; return true }
	_ = h
	return nil
}
func bound(n int) string { if n > 7 { return "max_tokens" }; return "" }
func first(n int) int { if n > 9 { return 0 }; return 1 }
`
	found, err := inFile(area{}, "p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range found {
		names = append(names, m.name)
	}
	want := []string{"p.go: f: n > 3", "p.go: f: n < 0", "p.go: f: n == 1", "p.go: bound: n > 7"}
	if !slices.Equal(names, want) {
		t.Errorf("guards %q, want %q", names, want)
	}
	if !strings.Contains(string(found[0].source), "if false && (n > 3) {") {
		t.Errorf("the mutant is %s", found[0].source)
	}
}

// TestOutcomes: a mutant that a test notices, one that none does, and one that cannot be built.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const source = "package p\n\nfunc large(n int) bool {\n\tif n > 3 {\n\t\treturn false\n\t}\n\treturn true\n}\n"
	write("go.mod", "module example.com/p\n\ngo 1.26\n")
	write("p.go", source)
	write("p_test.go", "package p\n\nimport \"testing\"\n\nfunc TestLarge(t *testing.T) {\n\tif large(4) {\n\t\tt.Error(4)\n\t}\n}\n")
	b := bench{root: root, limit: time.Minute}
	for want, changed := range map[outcome]string{
		killed:   strings.Replace(source, "n > 3", "false", 1),
		survived: strings.Replace(source, "n > 3", "n > 2", 1),
		unbuilt:  strings.Replace(source, "n > 3", "n >", 1),
	} {
		m := mutant{area: area{tests: []string{"."}}, file: "p.go", source: []byte(changed)}
		got, said, err := b.try(context.Background(), m)
		if err != nil || got != want || want == killed && firstFailure(said) != "TestLarge" {
			t.Errorf("%v, %v, want %v: %s", got, err, want, said)
		}
	}
}
