package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// upperSnake finds words like RUN_TERMINAL in comments.
var upperSnake = regexp.MustCompile(`\b[A-Z]{2,}(?:_[A-Z0-9]+)+\b`)

// notReasons are words of that form that the RPC comments use otherwise: gRPC
// codes, dispositions and enum values.
var notReasons = regexp.MustCompile(`^(?:INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|` +
	`FAILED_PRECONDITION|OUT_OF_RANGE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|IGNORED_[A-Z_]+|EXECUTION_[A-Z]+)$`)

// TestReasonsExist: every error reason that the contract promises is one that
// some code gives.
func TestReasonsExist(t *testing.T) {
	t.Parallel()
	code := literals(t)
	count := 0
	for reason, file := range promised(t) {
		count++
		if !strings.Contains(code, `"`+reason+`"`) {
			t.Errorf("%s promises the reason %s, which no code gives", file, reason)
		}
	}
	if count < 20 {
		t.Fatalf("only %d reasons found in the contract", count)
	}
}

// promised maps each reason in the comments of the services to its file.
func promised(t *testing.T) map[string]string {
	t.Helper()
	reasons := map[string]string{}
	for name, source := range protoSources(t) {
		if !strings.Contains(source, "\nservice ") {
			continue
		}
		services, _, _ := strings.Cut(source, "\nenum ")
		for line := range strings.Lines(services) {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, word := range upperSnake.FindAllString(line, -1) {
				if !notReasons.MatchString(word) {
					reasons[word] = name
				}
			}
		}
	}
	return reasons
}

// literals is the source of everything that makes errors, without its tests.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS("../../internal"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(filepath.Join("../../internal", name))
		all.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
