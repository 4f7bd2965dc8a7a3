package pack

import (
	"os"
	"path/filepath"
	"testing"
)

// examples returns the example packs of the RFCs.
func examples(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/packs/*")
	if err != nil || len(paths) != 11 {
		t.Fatalf("example packs: %v, %v", paths, err)
	}
	out := map[string][]byte{}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = src
	}
	return out
}

func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	for name, src := range examples(t) {
		p, ds, err := Load(src, Options{})
		if err != nil || p == nil {
			t.Errorf("%s: %v %v", name, err, ds)
			continue
		}
		for _, d := range ds {
			t.Logf("%s %v [%s] %s", name, d, d.Pointer, d.Hint)
		}
	}
}
