package store

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// TestYardstickIsAlone: it writes what it is given, but never into a store that is
// there already.
func TestYardstickIsAlone(t *testing.T) {
	t.Parallel()
	opts := Options{Dir: filepath.Join(t.TempDir(), "db"), MinFree: 1}
	y, err := NewBareCommitter(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Commit(t.Context(), []layout.Op{{Key: layout.HeadKey(0, "run"), Value: []byte("v")}}); err != nil {
		t.Error(err)
	}
	if n := count(t, y.store, layout.KindHead); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := NewBareCommitter(opts); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("over a store: %v", err)
	}
}
