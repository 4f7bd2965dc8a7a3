package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest finds `package: TestName` in a page.
var namedTest = regexp.MustCompile("`([a-z0-9/]+): (Test[A-Za-z0-9]+)`")

// clientTest finds `path/of/test_file.py: test_name` and `path/of/file.spec.ts: words of
// the test` in a page, and scenarios in the same way.
var clientTest = regexp.MustCompile("`((?:clients|conformance|examples|ui)/[A-Za-z0-9_./-]+\\.(?:py|ts|yaml)): ([^`]+)`")

// TestRowsHaveTests: each fault and each promise of the pages that list them has a test,
// and each test and scenario that they name exists.
func TestRowsHaveTests(t *testing.T) {
	t.Parallel()
	for _, page := range []struct {
		file, header string
		rows         int
	}{{"threat-model.md", "| threat |", 25}} {
		t.Run(page.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../docs/" + page.file)
			if err != nil {
				t.Fatal(err)
			}
			rows, counts := 0, false
			for line := range strings.Lines(string(text)) {
				counts = strings.Contains(line, page.header) || counts && strings.HasPrefix(line, "|")
				if counts && strings.HasPrefix(line, "| ") && !strings.Contains(line, page.header) {
					rows++
					rowHasTests(t, line)
				}
			}
			if rows < page.rows {
				t.Errorf("%d rows only", rows)
			}
		})
	}
}

// rowHasTests: a row of a table names at least one test, and no other than there are.
func rowHasTests(t *testing.T, line string) {
	t.Helper()
	tests := namedTest.FindAllStringSubmatch(line, -1)
	clients := clientTest.FindAllStringSubmatch(line, -1)
	if len(tests)+len(clients) == 0 {
		t.Errorf("no test: %s", line)
	}
	for _, test := range clients {
		if source, err := os.ReadFile("../../" + test[1]); err != nil || !strings.Contains(string(source), test[2]) {
			t.Errorf("%s has no %q: %v", test[1], test[2], err)
		}
	}
	for _, test := range tests {
		if !strings.Contains(testsOf(t, test[1]), "func "+test[2]+"(") {
			t.Errorf("%s has no %s", test[1], test[2])
		}
	}
	for _, name := range regexp.MustCompile("`(s[0-9]{2}_[a-z]+\\.txt)`").FindAllStringSubmatch(line, -1) {
		if _, err := os.Stat(filepath.Join("../runtime/machine/rules/testdata", name[1])); err != nil {
			t.Error(err)
		}
	}
}

// testsOf is the source of the tests in one directory.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}

// TestNothingExpires: no code gives what it stores a time to live, so that no
// waiting run, id or record is ever deleted by age.
func TestNothingExpires(t *testing.T) {
	t.Parallel()
	looked := 0
	err := fs.WalkDir(os.DirFS("../../internal"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "archtest/") {
			return err
		}
		source, err := os.ReadFile(filepath.Join("../../internal", name))
		looked++
		for _, word := range []string{"WithTTL", "ExpiresAt"} {
			if strings.Contains(string(source), word) {
				t.Errorf("%s uses %s", name, word)
			}
		}
		return err
	})
	if err != nil || looked < 100 {
		t.Fatalf("%d files, %v", looked, err)
	}
}
