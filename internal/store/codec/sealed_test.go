package codec

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/store/seal"
)

// oneKey returns the same key for every slot. nil means that the key was destroyed.
type oneKey struct{ key *seal.Key }

func (k oneKey) Key(uint64) (*seal.Key, error) {
	if k.key == nil {
		return nil, seal.ErrDestroyed
	}
	return k.key, nil
}

func testKey(t testing.TB, n byte) *seal.Key {
	t.Helper()
	key, err := seal.NewKey(1, [seal.KeySize]byte{n})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// FuzzSealed: the functions that read sealed values accept any bytes without a panic.
func FuzzSealed(f *testing.F) {
	f.Add([]byte{FormatSealed, 0, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, keys := range []oneKey{{}, {testKey(t, 1)}} {
			_, _ = ReadEntry("r", value, keys)
			_, _ = ReadHead(value, keys)
			_, _, _ = EntrySpan(value)
			_, _ = HeadCurrent(value)
			_, _ = HeadSeq(value)
			_ = Chained(value)
			_ = EntryCursor(value)
		}
	})
}
