package letters

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Bounds of the dead letters of one subscription: for a new one the oldest go.
const (
	MostRows  = 10_000
	MostBytes = 256 << 20
)

// oldestRows and oldestBytes are how many letters, and bytes of their keys, go at once.
const (
	oldestRows  = 4096
	oldestBytes = 256 << 10
)

// Oldest removes the oldest letters under a prefix that exceed the limits mostRows and
// mostBytes together with a new one. It removes at most a page; the next new letter removes
// more.
func (t *Trimmer) Oldest(p []byte, mostRows int, mostBytes int64) (old []layout.Op, err error) {
	err = t.View(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p, Reverse: true, KeysOnly: true})
		defer it.Close()
		rows, bytes := 1, int64(0)
		for it.Seek(append(slices.Clone(p), 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)); layout.Has(it, p); it.Next() {
			rows, bytes = rows+1, bytes+it.Size()
			if rows > mostRows || bytes > mostBytes {
				old = append(old, layout.Op{Key: it.KeyCopy(), Delete: true})
			}
		}
		return nil
	})
	most := min(oldestRows, oldestBytes/(len(p)+8))
	return old[max(0, len(old)-most):], err
}
