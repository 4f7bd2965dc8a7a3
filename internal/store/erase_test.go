package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

var wipe = machine.Erased{At: testTime + 1, By: "operator", Why: "asked by the subject"}

// Each of these values occurs only once, one for each kind of value that a run has. Compression does not
// change them.
var secrets = []string{
	"HMZFCCO6WAXL7AKQYTGH", "ZFWG2W7I2CFBFZ5VZXA3", "4DXIXNIGQXQF7IHUP3IE", "VNJQUE7ELEKJQK3Z7G36", "Y7C4DVYMLXWEIFVLMFMK", "EOPVT3KV4434O4KHZ5K2",
	"62RBJ55F7TNAYLHOSZQL", "2NV6MSKCJDXANLAY6OHK", "5W2GKYSCSHSAKPDML2SL", "IVCHW6X32XSUJ56Q6HPQ",
}

// erasableWorld has one run that has ended and one that goes on. Both contain all secrets.
func erasableWorld(t testing.TB, s *Store) *world {
	t.Helper()
	w := newWorld(t, s)
	w.graph.Erasable = true
	w.secret(runID(1))
	w.secret(runID(2))
	w.end(runID(2))
	return w
}

func text(s string) []machine.Part { return []machine.Part{{Kind: machine.PartText, Text: s}} }

// secret starts a run and does a part of its work, with every secret in it.
func (w *world) secret(run string) {
	w.t.Helper()
	turn := w.do(run, machine.Start{
		RunID: run, Execution: machine.Workers, Variables: []byte(`{"goal":"HMZFCCO6WAXL7AKQYTGH"}`), Input: text("ZFWG2W7I2CFBFZ5VZXA3"),
		Labels: []machine.Label{{Key: "team", Value: "core"}}, Envelope: &machine.Envelope{Metadata: []byte(`{"m":"IVCHW6X32XSUJ56Q6HPQ"}`)},
	}).Turn
	st := w.do(run, machine.CompleteTurn{
		TurnSeq: turn.Seq, Attempt: turn.Attempt, Event: "Planned", Output: text("4DXIXNIGQXQF7IHUP3IE"),
		Messages:  []machine.Message{{Role: "assistant", Parts: text("VNJQUE7ELEKJQK3Z7G36")}},
		Artifacts: []machine.ArtifactWrite{{Name: "plan", Value: []byte(`"Y7C4DVYMLXWEIFVLMFMK"`)}},
	})
	w.do(run, machine.RequestSteps{TurnSeq: st.Turn.Seq, Attempt: 1, Requests: []machine.StepRequest{
		{Key: "a", Tool: "run_tests", Payload: []byte(`{"p":"EOPVT3KV4434O4KHZ5K2"}`)}, {Key: "b", Tool: "run_tests", Payload: []byte(`{}`)},
	}})
	w.do(run, machine.ResolveStep{Step: 1, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`"62RBJ55F7TNAYLHOSZQL"`), Worker: "w"})
	w.do(run, machine.SendInput{Parts: text("2NV6MSKCJDXANLAY6OHK")})
	w.do(run, machine.Pause{Note: "5W2GKYSCSHSAKPDML2SL"})
	w.do(run, machine.Resume{Note: "5W2GKYSCSHSAKPDML2SL"})
}

// filesWith returns the files below a directory that contain a text.
func filesWith(t testing.TB, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// erase erases a run of the world.
func (w *world) erase(run string) *machine.State {
	w.t.Helper()
	st, duplicate, err := w.store.EraseRun(context.Background(), 0, run, wipe)
	if err != nil || duplicate {
		w.t.Fatalf("erase %s: duplicate %v, %v", run, duplicate, err)
	}
	return st
}

// mustBeErased checks every value that the store had of a run.
func mustBeErased(t *testing.T, s *Store, run string) {
	t.Helper()
	ctx, errs := context.Background(), map[string]error{}
	st, err := s.Head(ctx, 0, run)
	if err != nil || st.Erased == nil || st.Erased.By != wipe.By || st.Erased.Why != wipe.Why || st.Erased.At != wipe.At {
		t.Fatalf("head of an erased run: %+v, %v", st, err)
	}
	if len(st.Steps)+len(st.Artifacts)+len(st.Conversations) > 0 || st.TotalVisits == 0 || len(st.Labels) != 1 {
		t.Errorf("what is left of the head: %+v", st)
	}
	_, errs["versions"] = s.ArtifactVersions(ctx, 0, run, "plan", 9, false)
	_, _, errs["id"] = s.FindRequestID(ctx, 0, machine.Dedupe{Scope: machine.PerRun, Kind: machine.CmdPause, RunID: run, ID: pauseID(t, s, run)})
	errs["export"] = s.Export(ctx, 0, run, &bytes.Buffer{})
	for what, err := range errs {
		if !machine.IsErased(err) {
			t.Errorf("%s of an erased run: %v", what, err)
		}
	}
	entries, err := s.Entries(ctx, 0, run, 1, machine.Page{})
	if err != nil || len(entries) == 0 {
		t.Fatalf("its entries: %d, %v", len(entries), err)
	}
	for _, e := range entries {
		if !e.Erased || e.Input.BodyHash != [32]byte{} {
			t.Errorf("entry %d: %+v", e.First, e)
		}
	}
	if proof, err := s.Prove(ctx, 0, run, loopGraph()); err != nil || !proof.OK() || !proof.Erased || proof.Records != int64(st.Seq) {
		t.Errorf("proof: %+v, %v", proof, err)
	}
}

// pauseID returns an id that the run has used.
func pauseID(t *testing.T, s *Store, run string) string {
	t.Helper()
	entries, err := s.Entries(context.Background(), 0, run, 1, machine.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := e.Input.Command.(machine.Pause); ok {
			return e.Input.ID
		}
	}
	t.Fatal("the run was not paused")
	return ""
}

// TestEraseRun: no file contains the values of an erasable run, before or after the erasure. After it, no
// call returns a value of the run, and the rest of the run has a valid proof.
func TestEraseRun(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "db")
	s := openTemp(t, func(o *Options) { o.Dir = dir })
	w := erasableWorld(t, s)
	w.live(runID(3)) // These values are of the test itself, and any reader may see them.
	before := w.check()
	chain := w.runs[runID(2)].PrevHash
	if _, _, err := s.EraseRun(ctx, 0, runID(1), wipe); reasonOf(err) != "RUN_NOT_ENDED" {
		t.Errorf("a run that goes on: %v", err)
	}
	if _, _, err := s.EraseRun(ctx, 0, "nobody", wipe); !errors.Is(err, machine.ErrNoRun) {
		t.Errorf("a run that never was: %v", err)
	}
	st := w.erase(runID(2))
	if st.PrevHash != chain || st.Status != machine.Cancelled || st.Erased == nil {
		t.Errorf("answered %+v", st)
	}
	mustBeErased(t, s, runID(2))
	if again, duplicate, err := s.EraseRun(ctx, 0, runID(2), machine.Erased{At: 1, By: "another"}); err != nil || !duplicate || again.Erased.By != wipe.By {
		t.Errorf("again: %+v, %v, %v", again, duplicate, err)
	}
	if after := w.check(); after.Erased != 1 || after.Entries != before.Entries || after.Runs != before.Runs {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if page, _, err := s.ListRuns(ctx, 0, machine.RunFilter{Labels: []machine.Label{{Key: "team", Value: "core"}}, Status: []machine.Status{machine.Cancelled}}, "", 9); err != nil || len(page) != 1 || page[0].Erased == nil {
		t.Errorf("listed: %+v, %v", page, err)
	}
	if journal := journalOf(t, s); len(journal) != int(before.Entries) {
		t.Errorf("%d of %d entries in the order of everything", len(journal), before.Entries)
	}
	// The other run is unchanged, and goes on.
	w.end(runID(1))
	w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, s) })
	mustBeErased(t, w.store, runID(2))
	w.check()
	if st, err := w.store.Head(ctx, 0, runID(1)); err != nil || st.Erased != nil || len(st.Artifacts) == 0 {
		t.Errorf("the other run: %+v, %v", st, err)
	}
}

// TestCheckOfErasedRuns: a row of an erased run that differs from the state of the run is a fault.
func TestCheckOfErasedRuns(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	erased := *w.erase(runID(2)).Erased
	row := layout.Op{Key: layout.ErasedKey(0, runID(2)), Value: codec.EncodeErased(&erased)}
	other := erased
	other.Key++
	for name, op := range map[string]layout.Op{
		"another key":              {Key: row.Key, Value: codec.EncodeErased(&other)},
		"a run that is not erased": {Key: layout.ErasedKey(0, runID(1)), Value: codec.EncodeErased(&erased)},
	} {
		raw(t, s, op)
		fault := new(check.Fault)
		if _, err := s.Check(t.Context(), w.graphs); !errors.As(err, &fault) || fault.Row != "erased run" {
			t.Errorf("%s: %v", name, err)
		}
		raw(t, s, layout.Op{Key: op.Key, Delete: true})
		raw(t, s, row)
	}
	w.check()
}

// TestNoValueInAnyFile: no file contains a value of an erasable run, neither while the run can be read nor
// after its erasure, nor in files that Badger has not rewritten since. A run that cannot be erased shows that
// the test would find the values.
func TestNoValueInAnyFile(t *testing.T) {
	t.Parallel()
	for name, erasable := range map[string]bool{"erasable": true, "open": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "db")
			s, err := openOn(t, Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1})
			if err != nil {
				t.Fatal(err)
			}
			s.ReplayWith(replayTest)
			w := newWorld(t, s)
			w.graph.Erasable = erasable
			w.secret(runID(2))
			w.end(runID(2))
			live := copyStore(t, s)
			if erasable {
				w.erase(runID(2))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			// The hash of a short value would reveal it to a reader who tries all values.
			sum := sha256.Sum256([]byte(`"` + secrets[4] + `"`))
			for at, under := range map[string]string{"open": live, "closed": dir} {
				for _, secret := range append(secrets, string(sum[:])) {
					if found := filesWith(t, under, secret); (len(found) > 0) == erasable {
						t.Errorf("%s, %s: found in %v", at, secret, found)
					}
				}
			}
		})
	}
}

// TestKeysAndRowsBelongTogether: a directory is refused if its file of keys is missing, is cut, or is of
// another store. With an older copy of the keys, an erased run stays erased.
func TestKeysAndRowsBelongTogether(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	older := filepath.Join(t.TempDir(), keyring.Name)
	copyFile(t, filepath.Join(copyStore(t, s), keyring.Name), older)
	w.erase(runID(2))
	refusedWith := func(change func(dir string), want string) {
		t.Helper()
		dir := copyStore(t, s)
		change(filepath.Join(dir, keyring.Name))
		again, err := openOn(t, Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1})
		if err == nil {
			err = again.Close()
			t.Errorf("%s: opened, %v", want, err)
		}
		if !errors.Is(err, layout.ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	refusedWith(func(file string) { remove(t, file) }, "it is missing")
	refusedWith(func(file string) { truncate(t, file, 1024) }, "an older copy")
	refusedWith(func(file string) { truncate(t, file, 100) }, "does not begin as a file of keys")
	refusedWith(func(file string) {
		other := openTemp(t)
		erasableWorld(t, other)
		copyFile(t, filepath.Join(copyStore(t, other), keyring.Name), file)
	}, "another store")
	dir := copyStore(t, s)
	copyFile(t, older, filepath.Join(dir, keyring.Name))
	w.store = openTemp(t, func(o *Options) { o.Dir = dir })
	mustBeErased(t, w.store, runID(2))
	if at := w.store.engine.Keys().DestroyedAt(2); at != wipe.At {
		t.Errorf("the key that came back was destroyed at %d", at)
	}
	w.check()
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, file string, size int64) {
	t.Helper()
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestErasureIsEndedAfterACrash: a crash at any commit, write or sync of an erasure leaves the run erased or
// unchanged.
func TestErasureIsEndedAfterACrash(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	seams := 0
	for at := int64(1); ; at++ {
		var left atomic.Int64
		cut := func() error {
			if left.Load() > 0 && left.Add(-1) == 0 {
				return errPower
			}
			return nil
		}
		committed := false
		crashing := openTemp(t, func(o *Options) {
			o.Dir = copyStore(t, s)
			o.Hooks.BeforeCommit = func(Group) error { return cut() }
			o.Hooks.AfterCommit = func(Group) error { committed = true; return cut() }
			o.Hooks.RunKeys = func(string) error { return cut() }
		})
		committed = false
		left.Store(at)
		_, _, err := crashing.EraseRun(context.Background(), 0, runID(2), wipe)
		if err == nil {
			break
		}
		if !errors.Is(err, errPower) && !errors.Is(err, machine.ErrIndeterminate) {
			t.Fatalf("cut short at %d: %v", at, err)
		}
		seams++
		w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, crashing) })
		if committed {
			mustBeErased(t, w.store, runID(2))
			if w.store.engine.Keys().DestroyedAt(2) != wipe.At {
				t.Errorf("cut short at %d: the key is there", at)
			}
		} else if st, err := w.store.Head(context.Background(), 0, runID(2)); err != nil || st.Erased != nil || len(st.Artifacts) == 0 {
			t.Errorf("cut short at %d, it had not begun: %+v, %v", at, st, err)
		}
		w.check()
	}
	if seams < 4 {
		t.Errorf("the erasure has %d seams, the test needs more", seams)
	}
}

// TestFirstKeyAfterACrash: after a crash at any step of the creation of its key, the run does not exist, and
// the next run gets its own key.
func TestFirstKeyAfterACrash(t *testing.T) {
	t.Parallel()
	seams := 0
	for at := int64(1); ; at++ {
		var left atomic.Int64
		left.Store(at)
		cut := func(string) error {
			if left.Add(-1) == 0 {
				return errPower
			}
			return nil
		}
		crashing := openTemp(t, func(o *Options) { o.Hooks.RunKeys = cut })
		b := startBatch(runID(1), "one")
		b.State.Erasable = true
		_, err := crashing.Commit(context.Background(), b)
		if err == nil {
			break
		}
		seams++
		if !errors.Is(err, errPower) {
			t.Fatalf("cut short at %d: %v", at, err)
		}
		w := erasableWorld(t, openTemp(t, func(o *Options) { o.Dir = copyStore(t, crashing) }))
		w.erase(runID(2))
		w.check()
	}
	if seams < 4 {
		t.Errorf("the first key has %d seams, the test needs more", seams)
	}
}

// TestDeletedRunIsErased: the deletion of a run with a key destroys the key too.
func TestDeletedRunIsErased(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	w.delete(runID(2))
	mustBeGone(t, s, runID(2))
	if s.engine.Keys().DestroyedAt(2) == 0 {
		t.Error("the key of a deleted run is there")
	}
	w.endAndErase(runID(1))
	w.delete(runID(1))
	w.check()
}

// endAndErase ends and erases a run.
func (w *world) endAndErase(run string) {
	w.end(run)
	w.erase(run)
}

// TestUnusedKeyIsGivenAgain: a repeated start uses no key.
func TestUnusedKeyIsGivenAgain(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	commit := func(run, id string) (*machine.Batch, error) {
		b := startBatch(run, id)
		b.State.Erasable = true
		_, err := s.Commit(context.Background(), b)
		return b, err
	}
	if b, err := commit(runID(1), "one"); err != nil || b.State.Key != 1 {
		t.Fatalf("the first: %+v, %v", b.State, err)
	}
	for range 3 {
		if _, err := commit(runID(2), "one"); !errors.Is(err, machine.ErrConsumed) {
			t.Fatalf("a repeat: %v", err)
		}
	}
	if b, err := commit(runID(2), "two"); err != nil || b.State.Key != 2 {
		t.Errorf("the second: %+v, %v", b.State, err)
	}
}

// TestRepairLeavesErasedRuns: a repair writes no rows of erased runs.
func TestRepairLeavesErasedRuns(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	w.erase(runID(2))
	repaired, err := s.Repair(context.Background(), w.graphs)
	if err != nil || len(repaired.Broken) > 0 || len(repaired.Rows) > 0 {
		t.Errorf("repaired %+v, %v", repaired, err)
	}
	mustBeErased(t, s, runID(2))
	w.check()
}

// TestRestoreOfErasedRuns: with the newest keys, an erased run is erased in the restored store, from a backup
// before or after the erasure. Without keys, no restore succeeds.
func TestRestoreOfErasedRuns(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	keys := filepath.Join(s.opts.Dir, keyring.Name)
	before, id := w.backup("")
	older := filepath.Join(t.TempDir(), keyring.Name)
	copyFile(t, keys, older)
	w.erase(runID(2))
	w.end(runID(1))
	after, _ := w.backup(id)
	for name, c := range map[string]struct {
		keys   string
		chain  [][]byte
		erased bool
	}{
		"of before": {keys, [][]byte{before}, true}, "of after": {keys, [][]byte{before, after}, true},
		"of after, older keys": {older, [][]byte{before, after}, true},
		// The owner of an older copy of the keys can read the values of that time.
		"of before, older keys": {older, [][]byte{before}, false},
	} {
		dir := filepath.Join(t.TempDir(), "db")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Copy(c.keys, dir); err != nil {
			t.Fatal(err)
		}
		w.store = openTemp(t, func(o *Options) {
			o.Dir = dir
			if err := restore(t, *o, c.chain); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
		st, err := w.store.Head(context.Background(), 0, runID(2))
		if err != nil || (st.Erased != nil) != c.erased || st.Erased != nil && st.Erased.At != wipe.At {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
		w.check()
		w.runs = map[string]*machine.State{}
		w.secret(runID(5))
		w.check()
	}
	none := Options{Dir: filepath.Join(t.TempDir(), "db"), MemTableSize: 8 << 20, MinFree: 1}
	if err := restore(t, none, [][]byte{before}); !errors.Is(err, ErrNoRunKeys) {
		t.Errorf("without keys: %v", err)
	}
}

func restore(t *testing.T, opts Options, chain [][]byte) error {
	onEngineOf(t, &opts)
	return Restore(context.Background(), opts, len(chain), func(i int) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(chain[i])), nil
	})
}

// TestCopyOfKeys: keyring.Copy overwrites an earlier copy of the same store. It refuses to overwrite the keys
// of another store.
func TestCopyOfKeys(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	keys, to := filepath.Join(s.opts.Dir, keyring.Name), t.TempDir()
	same := func() bool {
		t.Helper()
		if _, err := keyring.Copy(keys, to); err != nil {
			t.Fatal(err)
		}
		a, _ := os.ReadFile(keys)
		b, _ := os.ReadFile(filepath.Join(to, keyring.Name))
		return len(a) > 0 && bytes.Equal(a, b)
	}
	if !same() {
		t.Error("the first copy differs")
	}
	w.erase(runID(2))
	if !same() {
		t.Error("the copy has the key that was destroyed")
	}
	other := openTemp(t)
	erasableWorld(t, other)
	if _, err := keyring.Copy(filepath.Join(other.opts.Dir, keyring.Name), to); !errors.Is(err, keyring.ErrForeign) {
		t.Errorf("the keys of another store: %v", err)
	}
}

// TestRotateRunKeys: until the directory has the new master key, both master keys open the keys of runs.
// Afterwards only the new one does.
func TestRotateRunKeys(t *testing.T) {
	t.Parallel()
	s := openTemp(t, encrypted)
	w := erasableWorld(t, s)
	w.erase(runID(2))
	dir := copyStore(t, s)
	for name, rotate := range map[string]func() error{
		"begun": func() error { return keyring.Rewrap(dir, oldKey, newKey) },
		"again": func() error { return keyring.Rewrap(dir, oldKey, newKey) },
	} {
		if err := rotate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := openWith(dir, oldKey); err != nil {
			t.Fatalf("%s, with the old key: %v", name, err)
		}
	}
	for _, step := range []error{nil, badgerengine.ErrSameKey} {
		if err := badgerengine.RotateKey(dir, oldKey, newKey); !errors.Is(err, step) {
			t.Fatalf("%v, want %v", err, step)
		}
	}
	if _, err := keyring.Open(dir, oldKey, nil); err == nil {
		t.Error("the old key opens the keys of runs")
	}
	w.store = openTemp(t, func(o *Options) { o.Dir, o.EncryptionKey = dir, newKey })
	mustBeErased(t, w.store, runID(2))
	w.check()
}

// TestCompactedKeys: a compacted store has the keys of its runs. Destroyed keys stay destroyed. The file of
// keys in the old directory is overwritten.
func TestCompactedKeys(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	w := erasableWorld(t, s)
	w.erase(runID(2))
	dir := copyStore(t, s)
	opts := Options{Dir: dir, MemTableSize: 8 << 20, MinFree: 1}
	old, err := os.Open(filepath.Join(dir, keyring.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, err := Compact(context.Background(), opts, "", func(fresh *Store) check.Graphs {
		fresh.ReplayWith(replayTest)
		return w.graphs
	}); err != nil {
		t.Fatal(err)
	}
	left, err := io.ReadAll(old)
	if err != nil || len(left) == 0 || !bytes.Equal(left, make([]byte, len(left))) {
		t.Errorf("the old file has %d bytes that were not written over, %v", len(left), err)
	}
	w.store = openTemp(t, func(o *Options) { *o = opts })
	mustBeErased(t, w.store, runID(2))
	w.check()
	w.endAndErase(runID(1))
}
