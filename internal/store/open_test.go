package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/memkv"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
)

func TestOptionsNameAllFaults(t *testing.T) {
	t.Parallel()
	_, err := Open(Options{MemTableSize: 1, BlockCache: 2, IndexCache: 3, MinFree: -1, GCInterval: -1, ScrubInterval: -1, MarkInterval: -1})
	for _, field := range []string{"Dir", "MemTableSize", "BlockCache", "IndexCache", "MinFree", "GCInterval", "ScrubInterval", "MarkInterval"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}

// reopen closes a store and opens its directory again.
func reopen(t *testing.T, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openTemp(t, func(o *Options) {
		o.Dir, o.EncryptionKey, o.DataKeyAge = s.opts.Dir, s.opts.EncryptionKey, s.opts.DataKeyAge
	})
}

func TestReopenKeepsEverything(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	before, epoch := w.check(), w.store.Epoch()
	tail, _ := w.store.Tail(context.Background(), 0)
	w.store = reopen(t, w.store)
	if after := w.check(); after != before {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	again, _ := w.store.Tail(context.Background(), 0)
	if w.store.Epoch() != epoch || again != tail || epoch == [16]byte{} {
		t.Fatalf("epoch %x, tail %d; it was %x, %d", w.store.Epoch(), again, epoch, tail)
	}
	// The last record is read from the disk now, and the cursors continue.
	if _, err := w.store.Commit(context.Background(), startBatch(runID(1), "")); !errors.Is(err, machine.ErrSeqConflict) {
		t.Fatal(err)
	}
	w.live(runID(7))
	w.end(runID(1))
	w.check()
}

// copyStore copies the directory of an open store. The copy is what a crash would leave.
func copyStore(t *testing.T, s *Store) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "crashed")
	if _, ok := s.engine.(*pgengine.Database); ok {
		copySchema(t, s.opts.Dir, to)
		return to
	}
	copyCalm(t, s.opts.Dir, to)
	if db, ok := memories.Load(s.opts.Dir); ok {
		memories.Store(to, db.(*memkv.DB).Clone())
	}
	return to
}

// copyCalm copies a directory and repeats the copy until no file was added or removed in the meantime. Badger
// moves its memory to tables at any time, and no crash leaves a mixture of both. The file of acknowledgements
// is read before the copy: the store writes its log first, and no crash leaves an acknowledgement that is
// newer than the log.
func copyCalm(t *testing.T, from, to string) {
	t.Helper()
	for {
		before := namesIn(t, from)
		head, missing := os.ReadFile(filepath.Join(from, datadir.HeadName))
		out, err := exec.Command("cp", "-r", "--sparse=always", from, to).CombinedOutput()
		if slices.Equal(before, namesIn(t, from)) {
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if missing == nil {
				if err := os.WriteFile(filepath.Join(to, datadir.HeadName), head, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestACopyOfTheOpenStoreHoldsEveryCommit: every answered commit is on the disk before the store is closed.
func TestACopyOfTheOpenStoreHoldsEveryCommit(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	before := w.check()
	w.store = openTemp(t, func(o *Options) { o.Dir = copyStore(t, w.store) })
	if after := w.check(); after != before {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	w.live(runID(8))
	w.check()
}

// TestSecondOpenFailsLoudly: a second Open in the same process fails. The error names the directory and the
// process that holds it.
func TestSecondOpenFailsLoudly(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	_, err := Open(s.opts)
	if !errors.Is(err, datadir.ErrLocked) || !strings.Contains(err.Error(), s.opts.Dir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatal(err)
	}
	mustCommit(t, s, startBatch(runID(1), ""))
}

// writeMarker overwrites the format marker of a closed store.
func writeMarker(t *testing.T, dir string, value []byte) {
	t.Helper()
	db, err := badger.OpenManaged(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	txn := db.NewTransactionAt(db.MaxVersion(), true)
	if err := txn.Set(layout.FormatKey, value); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(txn.CommitAt(db.MaxVersion()+1, nil), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOtherFormatsAreRefused(t *testing.T) {
	t.Parallel()
	newer := append(binary.BigEndian.AppendUint32(nil, FormatVersion+1), make([]byte, 16)...)
	for name, c := range map[string]struct {
		value []byte
		want  string
	}{
		"newer":  {newer, fmt.Sprintf("the store has format %d, this program reads format %d: use the program", FormatVersion+1, FormatVersion)},
		"older":  {append(binary.BigEndian.AppendUint32(nil, 1), make([]byte, 16)...), fmt.Sprintf("the store has format 1, this program reads format %d: 'pawl migrate", FormatVersion)},
		"short":  {[]byte{1}, "marker of 1 bytes"},
		"longer": {append(binary.BigEndian.AppendUint32(nil, FormatVersion), 1), "marker of 5 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "db")
			s, err := Open(Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			writeMarker(t, dir, c.value)
			if _, err := Open(Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestForeignDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := badger.OpenManaged(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	txn := db.NewTransactionAt(1, true)
	if err := txn.Set([]byte("theirs"), []byte("data")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(txn.CommitAt(2, nil), db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, MinFree: 1}); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
}

func TestAfterClose(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	start := startBatch(runID(1), "")
	mustCommit(t, s, start)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, eventBatch(start.State, nil)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Head(ctx, 0, runID(1)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, _, err := s.DueTimers(ctx, testTime, 1); err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestCloseStoresWhatWaits: Close stores and answers all batches that were submitted before it, in any order.
func TestCloseStoresWhatWaits(t *testing.T) {
	t.Parallel()
	s, st := newStalledStore(t)
	st.hold(func() { mustCommit(t, s, startBatch(runID(0), "")) })
	errs := make(chan error)
	for i := range 20 {
		go func() {
			_, err := s.Commit(context.Background(), startBatch(runID(i+1), ""))
			errs <- err
		}()
	}
	waitFor(t, "twenty batches wait", func() bool { return len(s.committer.queue) == 20 })
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	st.release()
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

// TestContextLimitsOnlyTheWaiting: a caller that stops waiting does not stop its batch. The batch is stored.
func TestContextLimitsOnlyTheWaiting(t *testing.T) {
	t.Parallel()
	s, st := newStalledStore(t)
	start := startBatch(runID(1), "")
	mustCommit(t, s, start)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	batch := eventBatch(start.State, nil)
	before := batch.State.PrevHash
	st.hold(func() {
		_, err := s.Commit(ctx, batch)
		left <- err
	})
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) || batch.State.PrevHash != before {
		t.Fatalf("%v, head moved: %v", err, batch.State.PrevHash != before)
	}
	st.release()
	waitFor(t, "the batch is stored", func() bool {
		st, err := s.Head(context.Background(), 0, runID(1))
		return err == nil && st.Seq == 2
	})
}

// TestKilledProcess is the process that TestSIGKILL kills. It commits for ever and prints the run and number
// of each acknowledged record.
func TestKilledProcess(t *testing.T) {
	dir := os.Getenv("PAWL_STORE_KILL_DIR")
	if dir == "" {
		t.Skip("started by TestSIGKILL only")
	}
	s, err := Open(Options{Dir: dir, MinFree: 1, MemTableSize: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	acks := make(chan string, 64)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			mine := newWorld(t, s)
			mine.ids = os.Getpid()*100_000_000 + n*1_000_000
			run := fmt.Sprintf("%s-%d-%d", runID(n), os.Getpid(), n)
			st := mine.start(run)
			acks <- fmt.Sprintf("%s %d", run, st.Seq)
			for {
				st = mine.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "plan", Value: []byte(`{"x":1}`)}}})
				acks <- fmt.Sprintf("%s %d", run, st.Seq)
			}
		})
	}
	go func() {
		wg.Wait()
		close(acks)
	}()
	out := bufio.NewWriter(os.Stdout)
	for line := range acks {
		fmt.Fprintln(out, line)
		out.Flush()
	}
}

// TestSIGKILL kills a process under load, several times over one store. No acknowledged commit is lost, and
// the store passes a check.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	acked := make(map[string]uint64)
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), "PAWL_STORE_KILL_DIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var run string
			var seq uint64
			if _, err := fmt.Sscanf(lines.Text(), "%s %d", &run, &seq); err == nil && strings.HasPrefix(run, "01J") {
				acked[run] = max(acked[run], seq)
			}
			if n == 200+100*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		w := newWorld(t, openTemp(t, func(o *Options) { o.Dir = dir }))
		report := w.check()
		for run, seq := range acked {
			st, err := w.store.Head(context.Background(), 0, run)
			if err != nil || st.Seq < seq {
				t.Fatalf("round %d: run %s was acknowledged at %d, the store has %+v, %v", round, run, seq, st, err)
			}
		}
		if report.Runs != int64(8*(round+1)) {
			t.Fatalf("round %d: %d runs", round, report.Runs)
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadgersMessagesReachTheLogger(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := &badgerengine.Logger{Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	l.Infof("info %d\n", 1)
	l.Warningf("warning %d", 2)
	l.Errorf("error %d", 3)
	l.Debugf("debug %d", 4)
	for _, want := range []string{`level=DEBUG msg="badger: info 1"`, `level=WARN msg="badger: warning 2"`, `level=ERROR msg="badger: error 3"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "debug 4") || l.Failure() != nil {
		t.Errorf("%s, %v", out.String(), l.Failure())
	}
}

// TestKeeperWorksInTheBackground: the store stores watermarks and collects the value log without a call, and
// stops both when it is closed.
func TestKeeperWorksInTheBackground(t *testing.T) {
	t.Parallel()
	s := openTemp(t, func(o *Options) { o.MarkInterval, o.GCInterval = time.Millisecond, time.Millisecond })
	w := newWorld(t, s)
	w.start(runID(1))
	due, latest := w.at+int64(2*time.Hour), int64(0)
	if timers, _, err := s.DueTimers(context.Background(), due, 10); err != nil || len(timers) == 0 {
		t.Fatalf("%v, %v", timers, err)
	} else {
		latest = timers[len(timers)-1].Due
	}
	w.end(runID(1))
	if _, _, err := s.DueTimers(context.Background(), due, 10); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the stored watermark moves", func() bool {
		for _, row := range rows(t, s) {
			if row.Key[0] == layout.KindWatermark && row.Key[5] == layout.TimerQueue && int64(binary.BigEndian.Uint64(row.Value[1:])) == latest-watermarkSlack {
				return true
			}
		}
		return false
	})
	w.check()
}

// TestOpenLeavesAMigrationAlone: between the two renames of a migration, the directory does not exist. Open
// does not create it.
func TestOpenLeavesAMigrationAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Mkdir(nextTo(dir), 0o700), datadir.SetProgress(nextTo(dir), datadir.Complete)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrFormat) {
		t.Errorf("opened: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("made %s: %v", dir, err)
	}
}

// laterEngine is an engine of a newer program.
type laterEngine struct{ engine.Engine }

func (laterEngine) Format() uint32 { return FormatVersion + 1 }

// TestFormatIsRaised: an engine with a newer format raises the format of the store once. Afterwards the older
// program refuses the store.
func TestFormatIsRaised(t *testing.T) {
	t.Parallel()
	db, dir := memkv.New(), t.TempDir()
	opened := func(newer bool) (*Store, error) {
		return Open(Options{Dir: dir, Engine: func(o Options) (engine.Engine, error) {
			e, err := memkv.Open(db, o.Dir, nil)
			if err != nil || !newer {
				return e, err
			}
			return laterEngine{e}, nil
		}})
	}
	var epoch [16]byte
	var last uint64
	for i, newer := range []bool{false, true, true} {
		s, err := opened(newer)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			mustCommit(t, s, startBatch(runID(1), ""))
			epoch = s.Epoch()
		}
		if got := s.engine.LastKey(); s.Epoch() != epoch || i == 2 && got != last {
			t.Errorf("opening %d: epoch %x after %x, group %d after %d", i, s.Epoch(), epoch, got, last)
		}
		last = s.engine.LastKey()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := opened(false)
	if refused, ok := errors.AsType[*FormatError](err); !ok || refused.Found != FormatVersion+1 || refused.Want != FormatVersion {
		t.Errorf("the program before: %v", err)
	}
}
