package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// tooMany is more rows than one commit of a store in these tests may change.
const tooMany = 14_000

// storeRows stores many rows, with as many commits as it needs.
func storeRows(t *testing.T, s *Store, n int, row func(i int) layout.Op) {
	t.Helper()
	if s.bounds.Keys >= tooMany {
		t.Fatalf("one commit takes %d keys, the tests expect fewer than %d", s.bounds.Keys, tooMany)
	}
	for i := 0; i < n; {
		var ops []layout.Op
		for ; i < n && len(ops) < 10_000; i++ {
			ops = append(ops, row(i))
		}
		if err := s.write(context.Background(), &Writes{entry: -1, ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t *testing.T, s *Store, kind byte) int {
	t.Helper()
	ops, _, _, err := s.keysUnder([]byte{kind}, 1<<30, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return len(ops)
}

// crowded makes a subscription with more dead letters than one commit can remove, and a second one with a
// single dead letter.
func crowded(t *testing.T, s *Store) (machine.SubscriptionKey, machine.SubscriptionKey) {
	t.Helper()
	key := machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "a"}
	beside := key
	beside.ID = "aa"
	for _, k := range []machine.SubscriptionKey{key, beside} {
		if err := s.PutSubscription(context.Background(), machine.Subscription{SubscriptionKey: k, Owner: "me"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	letter := codec.EncodeDeadLetter(&machine.DeadLetter{Event: "e"})
	storeRows(t, s, tooMany, func(i int) layout.Op { return layout.Op{Key: layout.DeadLetterKey(key, uint64(i+1)), Value: letter} })
	storeRows(t, s, 1, func(int) layout.Op { return layout.Op{Key: layout.DeadLetterKey(beside, 1), Value: letter} })
	return key, beside
}

// TestDropSubscriptionWithManyLetters: a subscription with any number of dead letters can be dropped. Nothing
// else is removed.
func TestDropSubscriptionWithManyLetters(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	key, beside := crowded(t, s)
	checked(t, s)
	if err := s.DropSubscription(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	if sub, err := s.Subscription(context.Background(), key); sub != nil || err != nil {
		t.Errorf("dropped, but %+v, %v", sub, err)
	}
	if sub, err := s.Subscription(context.Background(), beside); sub == nil || err != nil {
		t.Errorf("the one beside it: %+v, %v", sub, err)
	}
	if letters, marks := count(t, s, layout.KindDeadLetter), count(t, s, layout.KindDrop); letters != 1 || marks != 0 {
		t.Errorf("%d letters and %d marks are left, want 1 and 0", letters, marks)
	}
	checked(t, s)
}

// TestDropWithoutItsCaller: a caller that leaves while the first commit of a removal is stored does not end the
// removal. All rows are removed, and no mark is left for the next start.
func TestDropWithoutItsCaller(t *testing.T) {
	t.Parallel()
	var leave atomic.Pointer[context.CancelFunc]
	s := openTemp(t, func(o *Options) {
		o.Hooks.BeforeCommit = func(Group) error {
			if cancel := leave.Load(); cancel != nil {
				(*cancel)()
			}
			return nil
		}
	})
	key, _ := crowded(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	leave.Store(&cancel)
	if err := s.DropSubscription(ctx, key); err != nil {
		t.Fatal(err)
	}
	if letters, marks := count(t, s, layout.KindDeadLetter), count(t, s, layout.KindDrop); letters != 1 || marks != 0 {
		t.Errorf("%d letters and %d marks are left, want 1 and 0", letters, marks)
	}
	if err := s.DropSubscription(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("with a caller that has left before: %v", err)
	}
}

var errPower = errors.New("the power went")

// TestDropIsEndedAfterACrash: a crash at any commit of a removal leaves the subscription unchanged, or the
// next start of the store completes the removal. No removed row comes back.
func TestDropIsEndedAfterACrash(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{1, 2, 4} {
		t.Run(fmt.Sprint("commit ", at), func(t *testing.T) {
			t.Parallel()
			var left atomic.Int64
			dir := filepath.Join(t.TempDir(), "db")
			s := openTemp(t, func(o *Options) {
				o.Dir = dir
				o.Hooks.BeforeCommit = func(Group) error {
					if left.Load() > 0 && left.Add(-1) == 0 {
						return errPower
					}
					return nil
				}
			})
			key, beside := crowded(t, s)
			left.Store(at)
			if err := s.DropSubscription(context.Background(), key); !errors.Is(err, machine.ErrIndeterminate) {
				t.Fatalf("cut short: %v", err)
			}
			crashed := openTemp(t, func(o *Options) { o.Dir = copyStore(t, s) })
			sub, err := crashed.Subscription(context.Background(), key)
			if err != nil || (sub != nil) != (at == 1) {
				t.Fatalf("after the crash: %+v, %v", sub, err)
			}
			want := 1
			if at == 1 {
				want += tooMany
			}
			if letters, marks := count(t, crashed, layout.KindDeadLetter), count(t, crashed, layout.KindDrop); letters != want || marks != 0 {
				t.Errorf("%d letters and %d marks, want %d and 0", letters, marks, want)
			}
			if sub, err := crashed.Subscription(context.Background(), beside); sub == nil || err != nil {
				t.Errorf("the one beside it: %+v, %v", sub, err)
			}
			checked(t, crashed)
		})
	}
}

// TestRemovalOnAFullDisk: a removal was interrupted, and the disk is full. The store can be opened. When
// there is space again, the store completes the removal without a restart, and the key can be used again.
func TestRemovalOnAFullDisk(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "db")
	var free atomic.Int64
	full := func(o *Options) {
		o.Dir, o.MinFree = dir, 1<<30
		o.FreeSpace = func(string) (int64, error) { return free.Load(), nil }
	}
	free.Store(2 << 30)
	s := openTemp(t, full)
	key, _ := crowded(t, s)
	letters := layout.SubscriptionKey(layout.KindDeadLetter, key)
	broken := &Writes{entry: -1, ops: []layout.Op{
		{Key: layout.SubscriptionKey(layout.KindSubscription, key), Delete: true}, {Key: layout.DropKey(letters), Value: codec.Mark},
		{Key: layout.RunKey(nil, layout.KindImport, 0, runID(9)), Value: codec.Mark},
	}}
	if err := s.write(ctx, broken); err != nil {
		t.Fatal(err)
	}
	killed := copyStore(t, s)
	free.Store(dirOf(s).MinTableSpace())
	low := openTemp(t, full, func(o *Options) { o.Dir, o.MarkInterval = killed, 5*time.Millisecond })
	if marks := count(t, low, layout.KindDrop); marks != 1 {
		t.Fatalf("%d marks on a full disk, want the one that was left", marks)
	}
	// This space is too small for new work.
	free.Store(512 << 20)
	waitFor(t, "the removal is ended", func() bool { return count(t, low, layout.KindDrop) == 0 })
	free.Store(2 << 30)
	dirOf(low).Disk.Forget()
	if err := low.PutSubscription(ctx, machine.Subscription{SubscriptionKey: key, Owner: "me"}, nil); err != nil {
		t.Errorf("the key after its removal: %v", err)
	}
	if n := count(t, low, layout.KindDeadLetter); n != 1 {
		t.Errorf("%d letters are left, want 1", n)
	}
}

// TestKeyWaitsForItsRemoval: while the dead letters of a dropped subscription are being removed, no new
// subscription can take its key, and a change of the dropped subscription is refused.
func TestKeyWaitsForItsRemoval(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	key := machine.SubscriptionKey{Kind: machine.SubscriptionPush, Run: "r", ID: "a"}
	sub := machine.Subscription{SubscriptionKey: key, Owner: "me"}
	if err := s.PutSubscription(ctx, sub, nil); err != nil {
		t.Fatal(err)
	}
	letters := layout.SubscriptionKey(layout.KindDeadLetter, key)
	mark := &Writes{entry: -1, ops: []layout.Op{{Key: layout.SubscriptionKey(layout.KindSubscription, key), Delete: true}, {Key: layout.DropKey(letters), Value: codec.Mark}}}
	if err := s.write(ctx, mark); err != nil {
		t.Fatal(err)
	}
	for _, before := range []*machine.Subscription{nil, &sub} {
		if err := s.RecordDeadLetter(ctx, sub, before, machine.DeadLetter{N: 1}); !errors.Is(err, machine.ErrSubscriptionChanged) {
			t.Errorf("before %v: %v", before, err)
		}
	}
	if p, err := layout.DroppedPrefix(layout.DropKey(letters)); err != nil || string(p) != string(letters) {
		t.Errorf("the mark names %q, want %q, %v", p, letters, err)
	}
	if err := s.dropUnder(ctx, letters); err != nil {
		t.Fatal(err)
	}
	if err := s.dropUnder(ctx, letters); err != nil {
		t.Errorf("a removal that somebody else has ended: %v", err)
	}
	if err := s.PutSubscription(ctx, sub, nil); err != nil {
		t.Error(err)
	}
	checked(t, s)
}

// TestDeadLettersAreBounded: the dead letters of a subscription have a maximum number and a maximum size. The
// oldest ones are removed.
func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	key, _ := crowded(t, s)
	n := uint64(tooMany)
	bury := func() {
		t.Helper()
		n++
		before, err := s.Subscription(ctx, key)
		if err == nil {
			err = s.RecordDeadLetter(ctx, *before, before, machine.DeadLetter{N: n, Body: []byte("body")})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// An older program left too many letters. Each new letter removes one page of them.
	for range 3 {
		bury()
	}
	left, err := s.ListDeadLetters(ctx, key, 0, tooMany)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != maxDeadLetters || left[0].N != n-maxDeadLetters+1 || left[maxDeadLetters-1].N != n {
		t.Fatalf("%d letters, the first is %d, the newest %d", len(left), left[0].N, n)
	}
	old, err := s.deadLetterTrimmer().RemoveOldest(layout.SubscriptionKey(layout.KindDeadLetter, key), maxDeadLetters, 20)
	if err != nil || len(old) < dropPage {
		t.Errorf("too many bytes: %d letters go, %v", len(old), err)
	}
	checked(t, s)
}

// manyPieces makes an upload with more pieces than one commit can remove.
func manyPieces(t *testing.T, s *Store, key machine.UploadKey) machine.Upload {
	t.Helper()
	up := machine.Upload{Size: tooMany, Chunks: tooMany, At: testTime, Pieces: piecesOf(key, testTime)}
	storeRows(t, s, tooMany, func(i int) layout.Op { return layout.Op{Key: layout.PieceKey(0, up.Pieces, i), Value: []byte("x")} })
	storeRows(t, s, 1, func(int) layout.Op { return layout.Op{Key: layout.UploadKey(0, key), Value: codec.EncodeUpload(&up)} })
	return up
}

// TestManyPieces: an upload with more pieces than one commit can remove can be finished as a blob that
// exists, removed by a sweep, and started again.
func TestManyPieces(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	key := machine.UploadKey{Principal: "p", ID: "many"}
	blob, _ := putBlob(t, s, "one", testTime+100, "one")
	up := manyPieces(t, s, key)
	if existed, err := s.FinishUpload(ctx, 0, key, up, blob); err != nil || !existed {
		t.Fatalf("ended as a blob that exists: %v, %v", existed, err)
	}
	if pieces, marks := count(t, s, layout.KindBlobPiece), count(t, s, layout.KindDrop); pieces != 1 || marks != 0 {
		t.Fatalf("%d pieces and %d marks are left, want 1 and 0", pieces, marks)
	}
	manyPieces(t, s, key)
	want := machine.BlobSweep{Uploads: 1, Bytes: tooMany}
	if swept, err := s.SweepBlobs(ctx, 0, testTime+50); err != nil || swept != want {
		t.Fatalf("swept %+v, %v, want %+v", swept, err, want)
	}
	up = manyPieces(t, s, key)
	if _, err := s.FinishUpload(ctx, 0, key, up, machine.Blob{SHA256: [32]byte{1}, Size: up.Size, Chunks: up.Chunks, Pieces: up.Pieces, At: testTime}); err != nil {
		t.Fatal(err)
	}
	want = machine.BlobSweep{Blobs: 1, Bytes: tooMany}
	if swept, err := s.SweepBlobs(ctx, 0, testTime+50); err != nil || swept != want {
		t.Fatalf("swept %+v, %v, want %+v", swept, err, want)
	}
	first, err := s.AppendUpload(ctx, 0, key, machine.Upload{}, []byte("x"), testTime)
	if err != nil || first.Pieces != up.Pieces {
		t.Fatalf("begun anew: %+v, %v", first, err)
	}
	checked(t, s)
}
