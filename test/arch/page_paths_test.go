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

var (
	// pagePath finds the pages that a text names.
	pagePath = regexp.MustCompile(`\bdocs/[A-Za-z0-9_./-]*[A-Za-z0-9_]\.(?:md|json|yaml|html)\b`)
	// flagName finds the flags that a text names.
	flagName = regexp.MustCompile(`--[a-z][a-z-]+`)
	// productSources are the directories of what users run, each with the endings of its sources.
	productSources = map[string][]string{
		"internal": {".go"}, "cmd": {".go"}, "clients/go": {".go"},
		"clients/python/src": {".py"}, "clients/typescript/src": {".ts"}, "ui/src": {".ts", ".tsx"},
	}
)

// TestNamedPagesExist: each page that a message, a help text or a comment of the product names exists.
// A page that a Go string names together with flags has one of these flags.
func TestNamedPagesExist(t *testing.T) {
	t.Parallel()
	count := 0
	for top, endings := range productSources {
		err := filepath.WalkDir(filepath.Join("../..", top), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains(endings, filepath.Ext(name)) {
				return err
			}
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, page := range pagePath.FindAllString(string(source), -1) {
				count++
				if _, err := os.Stat(filepath.Join("../..", page)); err != nil {
					t.Errorf("%s names %s: %v", name, page, err)
				}
			}
			if strings.HasSuffix(name, ".go") && pagePath.Match(source) {
				return flagsAreOnPages(t, name, source)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 20 {
		t.Fatalf("only %d names of pages found", count)
	}
}

// flagsAreOnPages checks the string literals of a Go file that name a page and flags.
func flagsAreOnPages(t *testing.T, name string, source []byte) error {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		text, ok := node.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING {
			return true
		}
		said, _ := strconv.Unquote(text.Value)
		flags := flagName.FindAllString(said, -1)
		for _, page := range pagePath.FindAllString(said, -1) {
			content, err := os.ReadFile(filepath.Join("../..", page))
			if err == nil && len(flags) > 0 && !slices.ContainsFunc(flags, func(flag string) bool { return strings.Contains(string(content), flag) }) {
				t.Errorf("%s sends readers to %s for %s, and the page has none of them", name, page, strings.Join(flags, ", "))
			}
		}
		return true
	})
	return nil
}
