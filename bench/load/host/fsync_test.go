package host

import (
	"path/filepath"
	"testing"
)

func TestFsyncTakesTime(t *testing.T) {
	t.Parallel()
	got, err := FsyncP50(t.TempDir(), 3)
	if err != nil || got <= 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := FsyncP50(filepath.Join(t.TempDir(), "absent"), 3); err == nil {
		t.Error("a directory that is not there was written")
	}
}
