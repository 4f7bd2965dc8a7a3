package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// FuzzRead: Read either reads a file as a whole backup or refuses it as invalid, for any content of the file.
// A backup ends with the digest of its content, so that Read finds every change.
func FuzzRead(f *testing.F) {
	whole, h := withOneRow(f, layout.HeadKey(0, "run"))
	f.Add(whole)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		rows := 0
		got, err := Read(bytes.NewReader(file), func(ops []layout.Op) error {
			rows += len(ops)
			return nil
		})
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("refused as something else: %v", err)
			}
			return
		}
		if bytes.Equal(file, whole) && (got != h || rows != 1) {
			t.Fatalf("read %+v with %d rows", got, rows)
		}
	})
}

// withOneRow returns a backup that contains one row.
func withOneRow(tb testing.TB, key []byte) ([]byte, Header) {
	tb.Helper()
	var file bytes.Buffer
	h, err := next(Source{Format: 2, Epoch: [16]byte{1}, Group: 7}, "", 0, 1)
	if err != nil {
		tb.Fatal(err)
	}
	w := &writer{out: &file, sum: sha256.New()}
	if err := errors.Join(w.begin(h), w.packed(appendField(appendField(nil, key), []byte("value")))); err != nil {
		tb.Fatal(err)
	}
	w.rows = 1
	if err := w.end(); err != nil {
		tb.Fatal(err)
	}
	return file.Bytes(), h
}

// TestShortKeysAreRefused: the store decodes times and positions in keys of these kinds without a check, so a backup with a shorter key is
// refused.
func TestShortKeysAreRefused(t *testing.T) {
	t.Parallel()
	for kind, least := range map[byte]int{layout.KindTimer: 13, layout.KindCursor: 13, layout.KindOutbox: 14, layout.KindHead: 5, layout.KindPack: 1} {
		for size := range least + 2 {
			key := append([]byte{kind}, make([]byte, least+2)...)[:size]
			file, _ := withOneRow(t, key)
			_, err := Read(bytes.NewReader(file), func([]layout.Op) error { return nil })
			if refused := errors.Is(err, ErrInvalid); refused != (size < least) || !refused && err != nil {
				t.Errorf("a key of kind %q with %d bytes: %v", kind, size, err)
			}
		}
	}
}

// TestEndOfContext: a backup ends when its context ends.
func TestEndOfContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	view := func(func(txn *layout.Txn) error) error { return ctx.Err() }
	h, err := next(Source{Format: 2, Epoch: [16]byte{1}, Group: 7}, "", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(ctx, Source{View: view, Note: func(context.Context, []layout.Op) error { return nil }}, h, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
