package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

func (w *world) backup(after string) ([]byte, string) {
	w.t.Helper()
	var out bytes.Buffer
	h, err := w.store.Backup(context.Background(), after, testTime, &out)
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Bytes(), h.ID
}

// restored restores a chain of backups into a new store.
func restored(t *testing.T, files ...[]byte) (*Store, error) {
	t.Helper()
	var chain []backup.Header
	for _, file := range files {
		h, err := backup.Read(bytes.NewReader(file), nil)
		if err != nil {
			return nil, err
		}
		chain = append(chain, h)
	}
	if err := backup.Order(chain); err != nil {
		return nil, err
	}
	opts := Options{Dir: filepath.Join(t.TempDir(), "restored"), MemTableSize: 8 << 20, MinFree: 1}
	onEngineOf(t, &opts)
	err := Restore(context.Background(), opts, len(files), func(i int) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files[i])), nil
	})
	if err != nil {
		return nil, err
	}
	return openTemp(t, func(o *Options) { *o = opts }), nil
}

// sameRows checks that two stores have the same rows, byte for byte. It leaves out the rows that differ
// between any two stores.
func sameRows(t *testing.T, got, want *Store) {
	t.Helper()
	of := func(s *Store) map[string]string {
		out := map[string]string{}
		for _, row := range rows(t, s) {
			if !bytes.ContainsRune([]byte{layout.KindFormat, layout.KindWatermark, layout.KindBackup}, rune(row.Key[0])) {
				out[string(row.Key)] = string(row.Value)
			}
		}
		return out
	}
	is, was := of(got), of(want)
	for key, value := range was {
		if is[key] != value {
			t.Errorf("restored %s %q is %x, it was %x", layout.RowName([]byte(key)), key, is[key], value)
		}
	}
	for key := range is {
		if _, ok := was[key]; !ok {
			t.Errorf("restored %s %q, which was not there", layout.RowName([]byte(key)), key)
		}
	}
}

// TestBackupChain: the restore of a backup and of the backups that follow it makes the same store, row for
// row. Between the backups, runs start, continue, end and are deleted, blobs are stored and removed, and
// subscriptions change.
func TestBackupChain(t *testing.T) {
	t.Parallel()
	w, ctx := travelWorld(t), context.Background()
	blob, _ := putBlob(t, w.store, "u1", testTime, "large", "and more")
	gone, _ := putBlob(t, w.store, "u2", testTime, "unused")
	w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("blob:sha256:" + hexOf(blob.SHA256))}}})
	key := machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "a"}
	if err := w.store.PutSubscription(ctx, machine.Subscription{SubscriptionKey: key, Owner: "me"}, nil); err != nil {
		t.Fatal(err)
	}
	w.live(runID(20))
	write := machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("more")}}}
	early := w.export(runID(20))
	for range layout.CheckpointEvery {
		w.do(runID(20), write)
	}
	w.do(runID(20), machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: "late"}}})
	w.end(runID(20))
	first, after := w.backup("")
	w.live(runID(10))
	w.end(runID(10))
	w.delete(runID(2))
	second, after := w.backup(after)
	w.delete(runID(10))
	w.do(runID(1), write)
	if err := w.store.DropSubscription(ctx, key); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.SweepBlobs(ctx, 0, testTime+1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Blob(ctx, 0, gone.SHA256); !errors.Is(err, machine.ErrNoBlob) {
		t.Fatalf("the blob that goes: %v", err)
	}
	if n, err := w.store.ForgetDeleted(ctx, 0, asked.At+1); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	w.live(runID(11))
	// The run is imported again, from an export that is shorter than the run in the first backup.
	w.delete(runID(20))
	if st, _, err := w.importInto(w.store, 0, early); err != nil || !st.Imported {
		t.Fatalf("imported: %+v, %v", st, err)
	}
	third, _ := w.backup(after)
	s, err := restored(t, first, second, third)
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, s, w.store)
	if s.Epoch() == w.store.Epoch() {
		t.Error("the restored store passes for the one that was backed up")
	}
	if len(third) >= len(first) {
		t.Logf("the whole has %d bytes, what followed %d", len(first), len(third))
	}
	w.store = s
	w.check()
	w.live(runID(12))
	w.check()
	// Any of the later backups alone, and any other order, is refused.
	for _, files := range [][][]byte{{second}, {first, third}, {first, third, second}, {first, first}, {}} {
		if _, err := restored(t, files...); !errors.Is(err, backup.ErrInvalid) {
			t.Errorf("a chain of %d that is none: %v", len(files), err)
		}
	}
}

func hexOf(sum [32]byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 64)
	for _, b := range sum {
		out = append(out, digits[b>>4], digits[b&15])
	}
	return string(out)
}

// TestBackupForeign: a backup can follow only a backup of the store's own past. It cannot follow a backup of
// another store or of a copy that has changed since. After a restore or a repair, it cannot follow an earlier
// backup.
func TestBackupForeign(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	take := func(s *Store, after string) (string, []byte, error) {
		var out bytes.Buffer
		h, err := s.Backup(ctx, after, testTime, &out)
		return h.ID, out.Bytes(), err
	}
	foreign := func(what string, s *Store, after string) {
		t.Helper()
		if _, _, err := take(s, after); !errors.Is(err, backup.ErrForeign) {
			t.Errorf("%s: %v", what, err)
		}
	}
	one, other := newWorld(t, openTemp(t)), newWorld(t, openTemp(t))
	one.live(runID(1))
	first, file := one.backup("")
	foreign("of another store", other.store, file)
	dir := one.store.opts.Dir
	if err := one.store.Close(); err != nil {
		t.Fatal(err)
	}
	copied := copyStore(t, one.store)
	same := func(at string) *Store {
		return openTemp(t, func(o *Options) { o.Dir = at })
	}
	here, there := same(dir), same(copied)
	// Both stores can follow the backup that was made before the copy.
	second, secondFile, err := take(here, file)
	if err != nil {
		t.Fatal(err)
	}
	aside, _, err := take(there, file)
	if err != nil {
		t.Fatal(err)
	}
	foreign("a copy's", here, aside)
	foreign("of whom the copy was made", there, second)
	s, err := restored(t, first, secondFile)
	if err != nil {
		t.Fatal(err)
	}
	foreign("of whom this was restored", s, second)
	if _, err := here.Repair(ctx, one.graphs); err != nil {
		t.Fatal(err)
	}
	foreign("before a repair", here, second)
	if _, err := here.Check(ctx, one.graphs); err != nil {
		t.Fatal(err)
	}
}

// TestBackupsAreForgotten: the store keeps only the newest marks of backups.
func TestBackupsAreForgotten(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	var ops []layout.Op
	for n := range 1100 {
		ops = append(ops, layout.Op{Key: layout.BackupKey(fmt.Sprint(n)), Value: codec.EncodeNumber(0)})
	}
	if err := s.put(ctx, ops); err != nil {
		t.Fatal(err)
	}
	h, err := s.Backup(ctx, "", testTime, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	marks := 0
	for _, row := range rows(t, s) {
		if row.Key[0] == layout.KindBackup {
			marks++
		}
	}
	if _, err := s.Backup(ctx, h.ID, testTime, io.Discard); err != nil || marks != 1000 {
		t.Errorf("%d marks, the newest: %v", marks, err)
	}
}

// TestLastBackup: the store says when its newest backup was taken. It does not take a random id of an older program, or
// a time after now, for that time.
func TestLastBackup(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	first := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	second := first.Add(36 * time.Hour)
	want := func(now, want time.Time) {
		t.Helper()
		if got, err := s.LastBackup(now); err != nil || !got.Equal(want) {
			t.Errorf("at %v the last backup is that of %v, %v; want %v", now, got, err, want)
		}
	}
	var ops []layout.Op
	for _, id := range []string{"00000000000000000000000000000001", "0123456789abcdef0123456789abcdef", "ffffffffffffffffffffffffffffffff", "other"} {
		ops = append(ops, layout.Op{Key: layout.BackupKey(id), Value: codec.EncodeNumber(0)})
	}
	if err := s.put(ctx, ops); err != nil {
		t.Fatal(err)
	}
	want(second, time.Time{})
	for _, at := range []time.Time{first, second} {
		if _, err := s.Backup(ctx, "", at.UnixNano(), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	want(second.Add(time.Hour), second)
	want(second.Add(-time.Hour), first)
}

// fullAt is a writer that returns an error after the given number of bytes.
type fullAt struct{ left int }

var errFull = errors.New("nobody takes it")

func (f *fullAt) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestABrokenBackupIsNotRemembered: a backup can follow another one only if all rows of that one were sent.
// Backups that a caller aborts do not make the store forget complete ones.
func TestABrokenBackupIsNotRemembered(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	ctx := context.Background()
	_, after := w.backup("")
	whole := &fullAt{left: 1 << 30}
	h, err := w.store.Backup(ctx, after, testTime, whole)
	if err != nil {
		t.Fatal(err)
	}
	size, before := 1<<30-whole.left, rows(t, w.store)
	for _, cut := range []int{0, 10, size / 2, size - 200} {
		if _, err := w.store.Backup(ctx, after, testTime, &fullAt{left: cut}); !errors.Is(err, errFull) {
			t.Errorf("cut at %d of %d: %v", cut, size, err)
		}
	}
	if now := rows(t, w.store); len(now) != len(before) {
		t.Errorf("%d rows, there were %d", len(now), len(before))
	}
	for _, id := range []string{after, h.ID} {
		if _, err := w.store.Backup(ctx, id, testTime, io.Discard); err != nil {
			t.Errorf("a whole one is forgotten: %v", err)
		}
	}
}

// TestChangedBackupIsRefused: a backup that was cut, or of which a byte was changed, is refused.
func TestChangedBackupIsRefused(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	file, _ := w.backup("")
	if _, err := backup.Read(bytes.NewReader(file), nil); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		at := rnd.IntN(len(file))
		if _, err := backup.Read(bytes.NewReader(file[:at]), nil); !errors.Is(err, backup.ErrInvalid) {
			t.Fatalf("cut at %d of %d: %v", at, len(file), err)
		}
		bad := bytes.Clone(file)
		bad[at] ^= 1 << rnd.IntN(8)
		if _, err := backup.Read(bytes.NewReader(bad), nil); !errors.Is(err, backup.ErrInvalid) {
			t.Fatalf("byte %d of %d changed: %v", at, len(file), err)
		}
	}
	if _, err := backup.Read(bytes.NewReader(append(bytes.Clone(file), 'x')), nil); !errors.Is(err, backup.ErrInvalid) {
		t.Errorf("something behind its end: %v", err)
	}
}

// slowWriter calls a function before each write, so that other writers can change the store during a backup.
type slowWriter struct {
	bytes.Buffer
	between func()
}

func (s *slowWriter) Write(b []byte) (int, error) {
	s.between()
	return s.Buffer.Write(b)
}

// TestBackupUnderLoad: a backup shows the store at one moment, even if runs start, continue and are deleted
// in the meantime. It contains everything that was acknowledged before it, and the restored store passes a
// check.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t, openTemp(t)), context.Background()
	for n := range 10 {
		w.live(runID(n + 1))
		w.end(runID(n + 1))
	}
	var files [][]byte
	after, next := "", 100
	for round := range 3 {
		before := map[string]uint64{}
		for run, st := range w.runs {
			before[run] = st.Seq
		}
		var once sync.Once
		out := &slowWriter{between: func() {
			once.Do(func() { w.delete(runID(round + 1)) })
			w.live(runID(next))
			if next%3 == 0 {
				w.end(runID(next))
			}
			next++
		}}
		h, err := w.store.Backup(ctx, after, testTime, out)
		if err != nil {
			t.Fatal(err)
		}
		after, files = h.ID, append(files, out.Bytes())
		s, err := restored(t, files...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check(ctx, w.graphs); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for run, seq := range before {
			if st, err := s.Head(ctx, 0, run); err != nil || st.Seq != seq {
				t.Errorf("round %d: run %s had %d records when the backup began: %+v, %v", round, run, seq, st, err)
			}
		}
	}
	w.check()
}

// TestRestoreOfAnotherFormat: the format is compared before a row is stored.
func TestRestoreOfAnotherFormat(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	var file bytes.Buffer
	err := w.store.withCommittedView(func(ts uint64, view backup.View) error {
		from := backup.Source{Format: FormatVersion - 1, Epoch: w.store.epoch, Group: ts, View: view, Note: w.store.storeBackupRows}
		_, err := backup.Take(t.Context(), from, "", testTime, &file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	to := backup.Target{Format: FormatVersion, View: w.store.view, Write: func(_ context.Context, ops []layout.Op) error {
		t.Errorf("%d rows of another format are stored", len(ops))
		return nil
	}}
	err = backup.Restore(t.Context(), to, 1, func(int) (io.ReadCloser, error) { return io.NopCloser(&file), nil })
	if !errors.Is(err, backup.ErrInvalid) || !strings.Contains(err.Error(), "format 1, this program writes format 2") {
		t.Fatal(err)
	}
}
