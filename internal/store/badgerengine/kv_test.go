package badgerengine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, open)
}

func open(t *testing.T) kv.KV {
	t.Helper()
	db, err := openDB(dbOptions{
		Dir: t.TempDir(), Log: &Logger{Log: slog.New(slog.DiscardHandler)}, DataKeyAge: time.Hour,
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
