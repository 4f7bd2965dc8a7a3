package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// FuzzRead: whatever a file has, it is a whole backup or refused as none; its end is the
// digest of what came before, so that no change passes.
func FuzzRead(f *testing.F) {
	var whole bytes.Buffer
	h, err := next(Source{Format: 2, Epoch: [16]byte{1}, Group: 7}, "", 0, 1)
	if err != nil {
		f.Fatal(err)
	}
	w := &writer{out: &whole, sum: sha256.New()}
	page := appendField(appendField(nil, layout.HeadKey(0, "run")), []byte("value"))
	if err := errors.Join(w.begin(h), w.packed(page)); err != nil {
		f.Fatal(err)
	}
	w.rows = 1
	if err := w.end(); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
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
		if bytes.Equal(file, whole.Bytes()) && (got != h || rows != 1) {
			t.Fatalf("read %+v with %d rows", got, rows)
		}
	})
}

// TestEndOfContext: a backup whose caller has gone ends.
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
