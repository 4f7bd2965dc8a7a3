package runtime

import (
	"bytes"
	"testing"
	"time"
)

func TestSystemIDs(t *testing.T) {
	t.Parallel()
	ids := NewSystemIDs()
	at := time.UnixMilli(1_800_000_000_000)
	last := ""
	for range 1000 {
		id := ids.RunID(at)
		if len(id) != 26 || id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
	if a, b := ids.Token(), ids.Token(); a == b || len(a) != 22 {
		t.Fatalf("tokens %q and %q", a, b)
	}
	if !bytes.Equal([]byte(ids.RunID(at.Add(time.Hour)))[:4], []byte(last)[:4]) || ids.RunID(at.Add(time.Hour)) <= last {
		t.Fatal("a later run does not sort later")
	}
}
