package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingExpires: no code gives what it stores a time to live, so that no
// waiting run, id or record is ever deleted by age.
func TestNothingExpires(t *testing.T) {
	t.Parallel()
	looked := 0
	err := fs.WalkDir(os.DirFS("../../internal"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
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
