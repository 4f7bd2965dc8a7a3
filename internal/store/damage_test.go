package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/test/testkit"
	"github.com/pawl-dev/pawl/test/testkit/damage"
)

// populatedStore is a store of several openings: tables, value logs, blobs, packs, runs
// in the middle of their work, and a write log that was not flushed.
type populatedStore struct {
	killed, closed string
	key            []byte
	// rows is all that was acknowledged, as far as it may not change by itself.
	rows []layout.Op
	runs map[string][]machine.Entry
}

func populate(t *testing.T, change ...func(*Options)) *populatedStore {
	t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	noise := func(n int) string {
		b := make([]byte, n)
		_, _ = random.Read(b)
		return string(b)
	}
	w := busyWorld(t, change...)
	for open := range 3 {
		if open > 0 {
			w.store = reopen(t, w.store)
		}
		for n := range 4 {
			putBlob(t, w.store, fmt.Sprintf("blob-%d-%d", open, n), testTime, noise(20<<10), noise(40<<10), noise(3<<10))
			w.live(runID(10 + 10*open + n))
		}
	}
	// More than a memtable, so that a table is made while the store is open.
	for n := range 900 {
		run := runID(100 + n/90)
		if n%90 == 0 {
			w.start(run)
		}
		w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: fmt.Appendf(nil, "%x", noise(5<<10))}}})
	}
	putBlob(t, w.store, "last", testTime, noise(30<<10))
	p := &populatedStore{key: w.store.opts.EncryptionKey, runs: map[string][]machine.Entry{}}
	for _, row := range rows(t, w.store) {
		if row.Key[0] != layout.KindWatermark && !bytes.Equal(row.Key, layout.GroupKey) {
			p.rows = append(p.rows, row)
		}
	}
	for run := range w.runs {
		entries, err := allEntries(w.store, run)
		if err != nil {
			t.Fatal(err)
		}
		p.runs[run] = entries
	}
	p.killed = copyStore(t, w.store)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	p.closed = copyStore(t, w.store)
	return p
}

func allEntries(s *Store, run string) (all []machine.Entry, err error) {
	for from := uint64(1); ; {
		page, err := s.Entries(context.Background(), 0, run, from, machine.Page{})
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		last := page[len(page)-1]
		from = last.First + uint64(len(last.Records))
	}
}

// TestDamage flips, cuts, clears and deletes in a store that was killed or closed:
// each time the start refuses by name and touches nothing, or a read names what it
// cannot give, or everything that was acknowledged is read back. PAWL_DAMAGE is the
// number of trials.
func TestDamage(t *testing.T) {
	t.Parallel()
	trials := 20
	if n, err := strconv.Atoi(os.Getenv("PAWL_DAMAGE")); err == nil {
		trials = n
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		populate(t).tryAll(t, trials)
	})
	t.Run("encrypted", func(t *testing.T) {
		t.Parallel()
		populate(t, encrypted).tryAll(t, trials)
	})
}

func (p *populatedStore) tryAll(t *testing.T, trials int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(trials)))
	table := map[string]map[string]int{}
	for n := range trials {
		from := p.killed
		if n%2 == 1 {
			from = p.closed
		}
		dir := copyDir(t, from, fmt.Sprintf("trial-%d", n))
		h, err := damage.Choose(dir, random, datadir.WrittenBytes)
		if err := errors.Join(err, h.Apply(dir)); err != nil {
			t.Fatalf("%v: %v", h, err)
		}
		end := p.openAndRead(t, dir, h)
		if table[h.Kind] == nil {
			table[h.Kind] = map[string]int{}
		}
		table[h.Kind][end]++
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		t.Logf("%-12s %v", kind, table[kind])
	}
	testkit.ReportTried(t, trials, "damages")
}

// openAndRead opens a damaged directory and reads everything. It returns "refused",
// "named" (by a read) or "harmless".
func (p *populatedStore) openAndRead(t *testing.T, dir string, h damage.FileDamage) string {
	t.Helper()
	before := digest(t, dir)
	s, err := Open(Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20, EncryptionKey: p.key})
	if err != nil {
		_, otherKey := errors.AsType[*datadir.KeyError](err)
		if named := otherKey && p.key != nil && h.File == datadir.RegistryName; named {
			// Where the text of the registry is damaged, the key looks like another one.
			err = layout.NewDamage(h.File, "%v", err)
		}
		if !errors.Is(err, layout.ErrDamaged) || isRefusal(err) != machine.CodeDataLoss {
			t.Errorf("%v: not named: %v", h, err)
		}
		if after := digest(t, dir); !maps.Equal(before, after) {
			t.Errorf("%v: refused, but the directory was changed: %v", h, err)
		}
		return "refused"
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v: close: %v", h, err)
		}
	}()
	named := p.readBack(t, s, h)
	_, checked := s.Check(context.Background(), nil)
	var fault *check.Fault
	if named != errors.As(checked, &fault) {
		t.Errorf("%v: a read named damage: %v, check says %v", h, named, checked)
	}
	if named {
		return "named"
	}
	return "harmless"
}

// readBack compares all rows and runs with what was acknowledged, and reports
// whether anything was refused by name.
func (p *populatedStore) readBack(t *testing.T, s *Store, h damage.FileDamage) (named bool) {
	t.Helper()
	for _, row := range p.rows {
		err := s.view(func(txn *layout.Txn) error {
			value, err := layout.Get(txn, row.Key)
			if err == nil && !bytes.Equal(value, row.Value) {
				t.Errorf("%v: %s %x: served %d bytes instead of %d", h, layout.RowName(row.Key), row.Key, len(value), len(row.Value))
			}
			return err
		})
		if err != nil && isRefusal(err) != machine.CodeDataLoss {
			t.Errorf("%v: %s: %v", h, layout.RowName(row.Key), err)
		}
		named = named || err != nil
	}
	for run, want := range p.runs {
		got, err := allEntries(s, run)
		if err != nil && isRefusal(err) != machine.CodeDataLoss {
			t.Errorf("%v: run %s: %v", h, run, err)
		}
		if err == nil && (len(got) != len(want) || got[len(got)-1].Hash != want[len(want)-1].Hash) {
			t.Errorf("%v: run %s has %d entries instead of %d", h, run, len(got), len(want))
		}
	}
	return named
}

func isRefusal(err error) machine.Code {
	if r, ok := errors.AsType[*machine.Error](err); ok {
		return r.Code
	}
	return 0
}

// digest is [damage.Digest] of a directory.
func digest(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	sums, err := damage.Digest(dir, datadir.WithFile)
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func copyDir(t *testing.T, from, name string) string {
	t.Helper()
	to := filepath.Join(filepath.Dir(from), name)
	if out, err := exec.Command("cp", "-r", "--sparse=auto", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// TestDeletedDirectory: writes to files without a name succeed; the store notices,
// busy or idle, and says what is the case.
func TestDeletedDirectory(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"busy": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "db"), MinFree: 1, MemTableSize: 8 << 20})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, s, startBatch(runID(1), ""))
			if err := os.RemoveAll(s.opts.Dir); err != nil {
				t.Fatal(err)
			}
			if busy {
				if _, err := s.Commit(context.Background(), startBatch(runID(2), "")); isRefusal(err) != machine.CodeDataLoss {
					t.Errorf("a commit into nothing: %v", err)
				}
			}
			waitFor(t, "the store fails", func() bool {
				select {
				case <-s.Failed():
					return true
				default:
					return false
				}
			})
			if _, err := s.Commit(context.Background(), startBatch(runID(3), "")); isRefusal(err) != machine.CodeDataLoss {
				t.Errorf("a commit into nothing: %v", err)
			}
			if err := s.Close(); !errors.Is(err, layout.ErrDamaged) || !strings.Contains(err.Error(), "removed from "+s.opts.Dir) {
				t.Errorf("the close says %v", err)
			}
		})
	}
}

// TestScrub: the check finds a table that is damaged while the store is open, before a compaction rewrites the table
// without the lost rows.
func TestScrub(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	dir := w.store.opts.Dir
	w.store = reopen(t, w.store)
	if err := w.store.engine.Scrub(context.Background()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no table: %v", err)
	}
	if err := damage.Flip(tables[0], 100); err != nil {
		t.Fatal(err)
	}
	if err := w.store.engine.Scrub(context.Background()); !errors.Is(err, layout.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
		t.Fatal(err)
	}
}

// TestScrubReportsATableThatCannotBeOpened: the check returns an error that names the table. The error is not
// [layout.ErrDamaged], because the table may be whole.
func TestScrubReportsATableThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	w.store = reopen(t, w.store)
	tables, err := filepath.Glob(filepath.Join(w.store.opts.Dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no table: %v", err)
	}
	// A link to itself cannot be opened, by root neither.
	if err := errors.Join(os.Rename(tables[0], tables[0]+".away"), os.Symlink(filepath.Base(tables[0]), tables[0])); err != nil {
		t.Fatal(err)
	}
	if err := w.store.engine.Scrub(t.Context()); err == nil || errors.Is(err, layout.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
		t.Errorf("the check says %v", err)
	}
	if err := os.Rename(tables[0]+".away", tables[0]); err != nil {
		t.Fatal(err)
	}
	if err := w.store.engine.Scrub(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCollectionLeavesDamagedValues: Badger would move what is before the fault and
// delete the rest.
func TestCollectionLeavesDamagedValues(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	for n := range 8 {
		putBlob(t, s, fmt.Sprint(n), testTime, strings.Repeat(fmt.Sprint(n), 20<<10))
	}
	s = reopen(t, s)
	if _, err := s.SweepBlobs(context.Background(), 0, testTime+1); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	log := filepath.Join(s.opts.Dir, datadir.ValueLogName(1))
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	// As after a compaction that found most of it dead.
	stats := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), uint64(info.Size()))
	discard, err := os.OpenFile(filepath.Join(s.opts.Dir, "DISCARD"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = discard.WriteAt(stats, 0)
	if err := errors.Join(err, discard.Close()); err != nil {
		t.Fatal(err)
	}
	if some, err := datadir.WholeGarbage(s.opts.Dir, badgerengine.DeadRatio); err != nil || !some {
		t.Fatal(some, err)
	}
	if err := damage.Flip(log, 1000); err != nil {
		t.Fatal(err)
	}
	if err := dirOf(s).Reclaimer.CollectOne(t.Context()); !errors.Is(err, layout.ErrDamaged) {
		t.Fatal(err)
	}
	if _, err := os.Stat(log); err != nil {
		t.Fatal(err)
	}
}

// TestHeadFile: of the two slots the newer whole one counts, and a claim for
// another store is refused.
func TestHeadFile(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	dir := w.store.opts.Dir
	last, err := datadir.ReadAcked(dir)
	if err != nil || last.Group != w.store.readTimestamps.durable() || last.Cursor != w.store.readTimestamps.tail(0) || last.Epoch != w.store.epoch {
		t.Fatalf("HEAD says %+v, %v", last, err)
	}
	slot := int64(dirOf(w.store).Head.Count%2) * datadir.SlotBytes
	if err := damage.Flip(filepath.Join(dir, datadir.HeadName), slot+40); err != nil {
		t.Fatal(err)
	}
	if before, err := datadir.ReadAcked(dir); err != nil || before.Group != last.Group-1 {
		t.Fatalf("the older slot says %+v, %v", before, err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	foreign := *last
	foreign.Epoch[0]++
	h, err := datadir.NewAckFile(dir, foreign, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20}); !errors.Is(err, layout.ErrDamaged) || !strings.Contains(err.Error(), "another store") {
		t.Fatal(err)
	}
}

// TestStoreWithoutHeadFile: one of an older version opens, and has the file then.
func TestStoreWithoutHeadFile(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	before := w.check()
	dir := copyStore(t, w.store)
	if err := os.Remove(filepath.Join(dir, datadir.HeadName)); err != nil {
		t.Fatal(err)
	}
	w.store = openTemp(t, func(o *Options) { o.Dir = dir })
	if after := w.check(); after != before {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	if a, err := datadir.ReadAcked(dir); err != nil || a.Since != a.Group {
		t.Fatalf("HEAD says %+v, %v", a, err)
	}
}
