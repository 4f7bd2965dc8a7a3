package badgerkv_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/badgerkv"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, open)
}

func open(t *testing.T) kv.KV {
	t.Helper()
	db, err := badgerkv.Open(badgerkv.Options{
		Dir: t.TempDir(), Log: &diskspace.Logger{Log: slog.New(slog.DiscardHandler)}, DataKeyAge: time.Hour,
		MemTableSize: 8 << 20, BlockCache: 1 << 20, IndexCache: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
