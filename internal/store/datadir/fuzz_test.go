package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzInspect: Inspect and ReadAcked accept files with any content without a panic.
func FuzzInspect(f *testing.F) {
	store := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join("../../server/testdata/format-2", name))
		if err != nil {
			f.Fatal(err)
		}
		return content[:min(len(content), 64<<10)]
	}
	f.Add(store("MANIFEST"), []byte("table"), []byte("log"), []byte("values"), []byte("head"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, manifest, table, log, values, head []byte) {
		for name, content := range map[string][]byte{
			"MANIFEST": manifest, "000001.sst": table, "00001.mem": log, "000001.vlog": values, HeadName: head,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = Inspect(dir, nil)
		_, _ = ReadAcked(dir)
	})
}
