package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/test/testkit"
	"github.com/pawl-dev/pawl/test/testkit/damage"
)

// salvageTrials is the number of damaged directories of each kind of store.
func salvageTrials() int {
	if n, err := strconv.Atoi(os.Getenv("PAWL_SALVAGE")); err == nil {
		return n
	}
	return 6
}

// TestSalvage damages directories, one to three times each, and salvages them: every run of which all entries are whole
// comes out as it was, each other run is named, the new store is in order and serves, and the damaged directory is
// unchanged. PAWL_SALVAGE is the number of directories of a plain store, and of an encrypted one.
func TestSalvage(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		newSalvageTest(t, populate(t)).tryAll(t)
	})
	t.Run("encrypted", func(t *testing.T) {
		t.Parallel()
		newSalvageTest(t, populate(t, encrypted)).tryAll(t)
	})
}

type salvageTest struct {
	*populatedStore

	// places are, for each copy of the directory, where each version of each row is, by key.
	places map[string]map[string][]datadir.FoundRow
}

func newSalvageTest(t *testing.T, p *populatedStore) *salvageTest {
	t.Helper()
	s := &salvageTest{populatedStore: p, places: map[string]map[string][]datadir.FoundRow{}}
	for _, dir := range []string{p.killed, p.closed} {
		places := map[string][]datadir.FoundRow{}
		err := datadir.ReadDamaged(dir, p.key, func(row datadir.FoundRow) error {
			row.Value = nil
			places[string(row.Key)] = append(places[string(row.Key)], row)
			return nil
		}, func(d *layout.Damage) { t.Errorf("%s: %v", dir, d) })
		if err != nil {
			t.Fatal(err)
		}
		s.places[dir] = places
	}
	return s
}

// salvageCount counts the runs of all trials. whole are those of which every entry is whole in the damaged directory.
// unnamed are those of which no row can be read. shorter are those that came out without their last entries, because
// every row that tells of them is lost.
type salvageCount struct{ trials, refused, runs, whole, cameOut, named, unnamed, shorter int }

func (s *salvageTest) tryAll(t *testing.T) {
	t.Helper()
	trials := salvageTrials()
	random := rand.New(rand.NewPCG(35, uint64(len(s.key))))
	table := map[string]*salvageCount{}
	for n := range trials {
		from := []string{s.killed, s.closed}[n%2]
		dir := copyDir(t, from, fmt.Sprintf("salvage-%d", n))
		kind := ""
		for range 1 + n%3 {
			h, err := damage.Choose(dir, random, datadir.WrittenBytes)
			if err == nil {
				err = h.Apply(dir)
			}
			if err != nil {
				t.Fatalf("%v: %v", h, err)
			}
			if kind = h.Kind; n%3 != 0 {
				kind = "several"
			}
		}
		count := table[kind]
		if count == nil {
			count = &salvageCount{}
			table[kind] = count
		}
		count.trials++
		s.try(t, from, dir, count)
		for _, dir := range []string{dir, dir + ".new"} {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if t.Failed() {
			t.Logf("trial %d, %s", n, kind)
			return
		}
	}
	sum := salvageCount{}
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		c := table[kind]
		t.Logf("%-12s %+v", kind, *c)
		sum.trials, sum.refused, sum.runs, sum.whole = sum.trials+c.trials, sum.refused+c.refused, sum.runs+c.runs, sum.whole+c.whole
		sum.cameOut, sum.named, sum.unnamed, sum.shorter = sum.cameOut+c.cameOut, sum.named+c.named, sum.unnamed+c.unnamed, sum.shorter+c.shorter
	}
	testkit.ReportTried(t, trials, fmt.Sprintf("salvages: %+v", sum))
}

func (s *salvageTest) try(t *testing.T, original, dir string, count *salvageCount) {
	t.Helper()
	before, err := damage.Digest(dir, datadir.WithFile)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, graph: loopGraph(), runs: map[string]*machine.State{}}
	opts := Options{Dir: dir, EncryptionKey: s.key, MemTableSize: 8 << 20, MinFree: 1, Logger: slog.New(slog.DiscardHandler)}
	out, err := Salvage(t.Context(), opts, dir+".new", func(*Store) check.Graphs { return w.graphs })
	if after, err := damage.Digest(dir, datadir.WithFile); err != nil || !maps.Equal(before, after) {
		t.Errorf("the damaged directory was changed: %v", err)
	}
	count.runs += len(s.runs)
	if err != nil {
		// The data keys are lost, or their file looks like that of another key.
		if _, otherKey := errors.AsType[*datadir.KeyError](err); s.key == nil || !otherKey && !errors.Is(err, layout.ErrDamaged) || s.same(t, original, dir, datadir.RegistryName, 0, 1<<30) {
			t.Errorf("not salvaged: %v", err)
		}
		count.refused++
		return
	}
	opts.Dir = dir + ".new"
	fresh, err := Open(opts)
	if err != nil {
		t.Errorf("the new store does not open: %v", err)
		return
	}
	defer func() {
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
	}()
	fresh.ReplayWith(replayTest)
	w.store = fresh
	if report, err := fresh.Check(t.Context(), w.graphs); err != nil || report != out.Report {
		t.Errorf("check: %+v, %v, the salvage counted %+v", report, err, out.Report)
	}
	s.compareRuns(t, original, dir, fresh, &out, count)
	if _, err := fresh.Commit(t.Context(), startBatch(runID(9999), "after")); err != nil {
		t.Errorf("the new store takes no run: %v", err)
	}
	for _, row := range s.rows {
		if row.Key[0] == layout.KindBlob {
			s.compareRow(t, fresh, row, out.Damage)
		}
	}
}

// compareRuns compares the runs that came out with what they were, and with what is whole in the damaged directory.
func (s *salvageTest) compareRuns(t *testing.T, original, dir string, fresh *Store, out *Salvaged, count *salvageCount) {
	t.Helper()
	named, doubtful := map[string]bool{}, map[string]bool{}
	for _, fault := range out.Doubtful {
		doubtful[fault.Run] = true
	}
	for _, fault := range out.LeftOut {
		named[fault.Run] = true
	}
	for run, want := range s.runs {
		whole, sure := s.isWhole(t, original, dir, run, want)
		got, err := allEntries(fresh, run)
		if err != nil && !errors.Is(err, machine.ErrNoRun) {
			t.Errorf("run %s: %v", run, err)
		}
		if whole && sure {
			count.whole++
		}
		switch {
		case len(got) == 0 && whole && sure:
			t.Errorf("run %s is whole and did not come out: %v", run, out.LeftOut)
		case len(got) == 0 && !named[run]:
			if len(out.Damage) == 0 || s.isNamed(t, original, dir, run) {
				t.Errorf("run %s did not come out and is not named", run)
			}
			count.unnamed++
		case len(got) == 0:
			count.named++
		case len(got) < len(want) && !(whole && sure) && doubtful[run]:
			count.shorter++
		case len(got) != len(want) || got[len(got)-1].Hash != want[len(want)-1].Hash:
			t.Errorf("run %s came out with %d entries instead of %d", run, len(got), len(want))
		case named[run]:
			t.Errorf("run %s came out and is named as left out", run)
		default:
			count.cameOut++
		}
	}
}

// isWhole reports whether every entry of a run is whole in the damaged directory, and a row that names its pack, which no
// entry does. sure is false if this cannot be said:
// the index of an encrypted table is damaged, without which its blocks cannot be found.
func (s *salvageTest) isWhole(t *testing.T, original, dir, run string, entries []machine.Entry) (whole, sure bool) {
	t.Helper()
	sure = true
	for i := range entries {
		key := layout.EntryKey(0, run, entries[i].First)
		kept := false
		for _, row := range s.places[original][string(key)] {
			intact := s.intact(t, original, dir, row.At) && (row.Apart.File == "" || s.intact(t, original, dir, row.Apart))
			kept = kept || intact
		}
		if !kept {
			return false, true
		}
		for _, row := range s.places[original][string(key)] {
			for _, file := range []string{row.At.File, row.Apart.File} {
				sure = sure && (s.key == nil || file == "" || s.same(t, original, dir, file, 0, datadir.LogHeader) && s.same(t, original, dir, datadir.RegistryName, 0, 1<<30) && s.sameTail(t, original, dir, file))
			}
		}
	}
	return s.namesPack(t, original, dir, run), sure
}

// namesPack reports whether a row that is whole names the pack of the run: a head, a checkpoint or a row of the list
// index.
func (s *salvageTest) namesPack(t *testing.T, original, dir, run string) bool {
	t.Helper()
	for key, rows := range s.places[original] {
		switch key[0] {
		case layout.KindHead, layout.KindSnapshot:
		case layout.KindIndex:
			if !strings.HasPrefix(key[5:], "pack\x00") {
				continue
			}
		default:
			continue
		}
		if strings.Contains(key, run) && slices.ContainsFunc(rows, func(row datadir.FoundRow) bool {
			return !row.Deleted && s.intact(t, original, dir, row.At) && (row.Apart.File == "" || s.intact(t, original, dir, row.Apart))
		}) {
			return true
		}
	}
	return false
}

// isNamed reports whether a row that is whole in the damaged directory names the run.
func (s *salvageTest) isNamed(t *testing.T, original, dir, run string) bool {
	t.Helper()
	head := s.places[original][string(layout.HeadKey(0, run))]
	return s.key == nil && slices.ContainsFunc(head, func(row datadir.FoundRow) bool {
		return s.intact(t, original, dir, row.At) && (row.Apart.File == "" || s.intact(t, original, dir, row.Apart))
	})
}

func (s *salvageTest) intact(t *testing.T, original, dir string, at datadir.Place) bool {
	t.Helper()
	return s.same(t, original, dir, at.File, at.From, at.To)
}

// sameTail reports whether the last bytes of a table are as they were, where its index is.
func (s *salvageTest) sameTail(t *testing.T, original, dir, file string) bool {
	t.Helper()
	if filepath.Ext(file) != ".sst" {
		return true
	}
	last := int64(0)
	for _, rows := range s.places[original] {
		for _, row := range rows {
			if row.At.File == file {
				last = max(last, row.At.To)
			}
		}
	}
	return s.same(t, original, dir, file, last, 1<<30)
}

// same reports whether a part of a file is as it was.
func (s *salvageTest) same(t *testing.T, original, dir, file string, from, to int64) bool {
	t.Helper()
	part := func(dir string) []byte {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			return nil
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, max(0, min(to, info.Size())-from))
		n, _ := f.ReadAt(b, from)
		return b[:n]
	}
	return bytes.Equal(part(original), part(dir))
}

// compareRow compares a row of the new store with the original. A row may be missing if something is damaged.
func (s *salvageTest) compareRow(t *testing.T, fresh *Store, row layout.Op, damage []*layout.Damage) {
	t.Helper()
	err := fresh.view(func(txn *layout.Txn) error {
		got, err := layout.Get(txn, row.Key)
		if err == nil && (got == nil && len(damage) == 0 || got != nil && !bytes.Equal(got, row.Value)) {
			err = fmt.Errorf("row %x is %x instead of %x", row.Key, got, row.Value)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSalvageOfAWholeDirectory loses nothing and writes nothing.
func TestSalvageOfAWholeDirectory(t *testing.T) {
	t.Parallel()
	for _, change := range [][]func(*Options){nil, {encrypted}} {
		s := newSalvageTest(t, populate(t, change...))
		for _, from := range []string{s.killed, s.closed} {
			dir, count := copyDir(t, from, "whole"), salvageCount{}
			s.try(t, from, dir, &count)
			if count.cameOut != len(s.runs) || count.whole != len(s.runs) {
				t.Errorf("%+v, want all %d runs", count, len(s.runs))
			}
			if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+".new")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSalvageOfRunKeys: without their keys, erasable runs are left out and named, an erased one comes out, and no new
// run gets the place of a lost key.
func TestSalvageOfRunKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hurt func(file string) error
		runs int64
	}{
		"whole":   {hurt: func(string) error { return nil }, runs: 3},
		"missing": {hurt: os.Remove, runs: 1},
		"header":  {hurt: func(file string) error { return damage.Flip(file, 9) }, runs: 1},
		"cut":     {hurt: func(file string) error { return os.Truncate(file, 512) }, runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := erasableWorld(t, openTemp(t))
			w.secret(runID(3))
			w.erase(runID(2))
			dir := copyStore(t, w.store)
			if err := c.hurt(filepath.Join(dir, keyring.Name)); err != nil {
				t.Fatal(err)
			}
			opts := Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1}
			out, err := Salvage(t.Context(), opts, dir+".new", func(*Store) check.Graphs { return w.graphs })
			if err != nil || out.Report.Runs != c.runs || int64(len(out.LeftOut)) != 3-c.runs {
				t.Fatalf("%+v, %v, want %d runs", out, err, c.runs)
			}
			opts.Dir = dir + ".new"
			fresh, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := fresh.Close(); err != nil {
					t.Error(err)
				}
			}()
			if _, err := fresh.Check(t.Context(), w.graphs); err != nil {
				t.Error(err)
			}
			own := newWorld(t, fresh)
			own.graph.Erasable, own.ids = true, w.ids
			if key := own.start(runID(4)).Key; key <= 3 {
				t.Errorf("the new run has the key %d, which belonged to another one", key)
			}
		})
	}
}

// TestSalvageOfALostEnd: if the last commit of a run is lost with every row that tells of it, the damage is named and the
// run is doubtful, or left out if its head tells of it, also if later commits can be read.
func TestSalvageOfALostEnd(t *testing.T) {
	t.Parallel()
	webhook := func(w *world) {
		key := machine.SubscriptionKey{Kind: machine.SubscriptionWebhook, ID: "w"}
		if err := w.store.PutSubscription(t.Context(), machine.Subscription{SubscriptionKey: key, Owner: "me"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	namespace := func(w *world) {
		b := startBatch(runID(2), "another")
		b.State.Namespace, b.State.Digest = 7, w.graph.Digest
		if _, err := w.store.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		then func(*world)
		hurt func(t *testing.T, dir string, from, to int64)
		says string
	}{
		"before a webhook":                       {webhook, overwriteLog, "are no whole record"},
		"before another namespace":               {namespace, overwriteLog, "are no whole record"},
		"at the end of an older log":             {webhook, splitLog, "are no whole record"},
		"cut from an older log":                  {webhook, splitCutLog, "is not whole or not there"},
		"as the last one, in its middle":         {nil, zeroHalf, "was acknowledged"},
		"with the copy of HEAD that tells of it": {nil, zeroHalfAndHead, "may have been acknowledged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openTemp(t))
			w.start(runID(1))
			w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("noted")}}})
			entries, err := allEntries(w.store, runID(1))
			if err != nil {
				t.Fatal(err)
			}
			if c.then != nil {
				c.then(w)
			}
			dir := copyStore(t, w.store)
			from, to := groupOf(t, dir, layout.EntryKey(0, runID(1), entries[len(entries)-1].First))
			c.hurt(t, dir, from, to)
			out, err := Salvage(t.Context(), Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1}, dir+".new", func(*Store) check.Graphs { return w.graphs })
			if err != nil {
				t.Fatal(err)
			}
			if named := slices.Concat(out.Doubtful, out.LeftOut); !slices.ContainsFunc(named, func(f *check.Fault) bool { return f.Run == runID(1) }) {
				t.Errorf("doubtful: %v, left out: %v", out.Doubtful, out.LeftOut)
			}
			if !slices.ContainsFunc(out.Damage, func(d *layout.Damage) bool { return strings.Contains(d.Detail, c.says) }) {
				t.Errorf("%v do not say %q", out.Damage, c.says)
			}
		})
	}
}

// TestSalvageOfAMergedTable: rows of a table that the MANIFEST no longer lists are not read, because they may have been
// deleted later. They are read if the MANIFEST is damaged or a listed table is missing.
func TestSalvageOfAMergedTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	for n := range 3 {
		w.start(runID(n))
		w.store = reopen(t, w.store) // makes a table
	}
	dir := copyStore(t, w.store)
	const merged = "000000.sst"
	for _, c := range []struct {
		what string
		hurt func() error
		read bool
	}{
		{"a merged table", func() error { return os.WriteFile(filepath.Join(dir, merged), readFile(t, dir, "000001.sst"), 0o600) }, false},
		{"a listed table is missing", func() error { return os.Remove(filepath.Join(dir, "000002.sst")) }, true},
		{"the MANIFEST is damaged", func() error { return damage.Flip(filepath.Join(dir, "MANIFEST"), 20) }, true},
	} {
		if err := c.hurt(); err != nil {
			t.Fatal(err)
		}
		read := false
		err := datadir.ReadDamaged(dir, nil, func(row datadir.FoundRow) error {
			read = read || row.At.File == merged
			return nil
		}, func(*layout.Damage) {})
		if err != nil || read != c.read {
			t.Errorf("%s: the rows of %s are read: %v, want %v, %v", c.what, merged, read, c.read, err)
		}
	}
}

func readFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const onlyLog = "00001.mem"

// groupOf returns which part of the only log has the commit group with the newest version of a row.
func groupOf(t *testing.T, dir string, key []byte) (from, to int64) {
	t.Helper()
	var group uint64
	var all []datadir.FoundRow
	err := datadir.ReadDamaged(dir, nil, func(row datadir.FoundRow) error {
		if bytes.Equal(row.Key, key) {
			group = max(group, row.Group)
		}
		all = append(all, datadir.FoundRow{Group: row.Group, At: row.At})
		return nil
	}, func(d *layout.Damage) { t.Error(d) })
	if err != nil {
		t.Fatal(err)
	}
	err = datadir.WithFile(dir, onlyLog, func(data []byte) error {
		from, to = math.MaxInt64, int64(len(bytes.TrimRight(data, "\x00")))
		return nil
	})
	for _, row := range all {
		switch {
		case row.At.File != onlyLog:
			t.Fatalf("a row is in %s", row.At.File)
		case row.Group == group:
			from = min(from, row.At.From)
		case row.Group > group:
			to = min(to, row.At.From)
		}
	}
	if err != nil || from >= to {
		t.Fatalf("group %d: bytes %d to %d, %v", group, from, to, err)
	}
	return from, to
}

// zeroHalfAndHead also damages the newest copy of what HEAD records, so that the copy before it counts.
func zeroHalfAndHead(t *testing.T, dir string, from, to int64) {
	t.Helper()
	zeroHalf(t, dir, from, to)
	path := filepath.Join(dir, datadir.HeadName)
	data := readFile(t, dir, datadir.HeadName)
	newest := int64(0)
	if binary.BigEndian.Uint64(data[datadir.SlotBytes+8:]) > binary.BigEndian.Uint64(data[8:]) {
		newest = datadir.SlotBytes
	}
	if err := damage.Flip(path, newest+40); err != nil {
		t.Fatal(err)
	}
}

// overwriteLog overwrites a part of the only log.
func overwriteLog(t *testing.T, dir string, from, to int64) {
	t.Helper()
	changeLog(t, dir, func(data []byte) []byte {
		copy(data[from:to], bytes.Repeat([]byte{0xff}, int(to-from)))
		return data
	})
}

// zeroHalf zeroes the second half of a part of the only log.
func zeroHalf(t *testing.T, dir string, from, to int64) {
	t.Helper()
	changeLog(t, dir, func(data []byte) []byte {
		clear(data[(from+to)/2 : to])
		return data
	})
}

func changeLog(t *testing.T, dir string, change func(data []byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, onlyLog)
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// splitLog moves what follows a part of the only log to a second log, and overwrites the part. splitCutLog leaves the
// part out.
func splitLog(t *testing.T, dir string, from, to int64)    { split(t, dir, from, to, true) }
func splitCutLog(t *testing.T, dir string, from, to int64) { split(t, dir, from, to, false) }

func split(t *testing.T, dir string, from, to int64, keep bool) {
	t.Helper()
	changeLog(t, dir, func(data []byte) []byte {
		second := slices.Concat(data[:datadir.LogHeader], data[to:])
		if err := os.WriteFile(filepath.Join(dir, "00002.mem"), second, 0o600); err != nil {
			t.Fatal(err)
		}
		if !keep {
			return data[:from]
		}
		return append(data[:from], bytes.Repeat([]byte{0xff}, int(to-from))...)
	})
}
