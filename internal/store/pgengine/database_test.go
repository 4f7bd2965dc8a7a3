package pgengine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

func TestMain(m *testing.M) { pgserver.Main(m) }

// relayedStore is a store in a database behind a relay.
type relayedStore struct {
	relay *relay.Relay
	name  string
	cfg   pgengine.Config
	db    *pgengine.Database
}

func newWay(t *testing.T) *relayedStore {
	t.Helper()
	server := pgserver.Shared(t)
	raw := server.Database(t)
	name, _, _ := strings.Cut(raw[strings.LastIndex(raw, "/")+1:], "?")
	w := &relayedStore{relay: relay.Start(t, server.Addr()), name: name}
	w.cfg = pgengine.Config{
		URL: dsn.Parse(strings.Replace(raw, server.Addr(), w.relay.Addr(), 1)), Readers: 2,
		Timeouts: pg.Timeouts{Read: time.Second, GracePeriod: 50 * time.Millisecond, CloseTimeout: 100 * time.Millisecond},
	}
	var err error
	if w.db, err = pgengine.Open(w.cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
	kvtest.Commit(t, w.db, map[string][]byte{"F": []byte("1")})
	return w
}

func (w *relayedStore) query(t *testing.T, sql string) {
	t.Helper()
	pgserver.Shared(t).Query(t, w.name, sql)
}

// commit starts a commit and does not wait for its result.
func (w *relayedStore) commit() chan kv.Result {
	results := make(chan kv.Result, 1)
	batch := w.db.Batch()
	batch.Set([]byte("j"), []byte("2"))
	batch.Commit(w.db.LastKey()+1, func(r kv.Result) { results <- r })
	return results
}

func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it does not come to that")
		}
	}
}

// TestAway: while the database is unavailable, new work and reads are refused with an error that says what to
// do and does not show the password. The waiting commit is stored when the database is available again.
func TestAway(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	w.relay.Refuse()
	results := w.commit()
	waitUntil(t, func() bool { return w.db.CheckSpace(1, false) != nil })
	view := kv.On(w.db.View(1))
	defer view.Close()
	_, unread := view.Get([]byte("F"))
	for what, err := range map[string]error{"room": w.db.CheckSpace(1, true), "a read": unread} {
		refusal, ok := errors.AsType[*machine.Error](err)
		if !ok || refusal.Code != machine.CodeUnavailable || refusal.Reason != pgengine.ReasonDatabaseAway || refusal.RetryAfter == 0 ||
			!strings.Contains(refusal.Message, w.cfg.URL.String()) || strings.Contains(refusal.Message, pgserver.Password) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := w.db.Check(); err != nil {
		t.Errorf("the store is failed: %v", err)
	}
	w.relay.Accept()
	if r := <-results; r.Outcome != kv.Stored {
		t.Errorf("%+v", r)
	}
	if err := w.db.CheckSpace(1, false); err != nil {
		t.Errorf("it is there again: %v", err)
	}
}

// TestFull: new work is refused while the disk of the database is full. The waiting commit is stored when
// there is space again.
func TestFull(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	w.query(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$`)
	w.query(t, "CREATE TRIGGER full_disk BEFORE INSERT ON pawl.cold FOR EACH STATEMENT EXECUTE FUNCTION full_disk()")
	results := w.commit()
	waitUntil(t, func() bool { return w.db.CheckSpace(1, false) != nil })
	if refusal, ok := errors.AsType[*machine.Error](w.db.CheckSpace(1, false)); !ok || refusal.Reason != datadir.DiskLow {
		t.Errorf("%v", w.db.CheckSpace(1, false))
	}
	w.query(t, "DROP TRIGGER full_disk ON pawl.cold")
	if r := <-results; r.Outcome != kv.Stored {
		t.Errorf("%+v", r)
	}
}

// TestLocked: a store that another process owns cannot be opened. The error names the process.
func TestLocked(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	other := w.cfg
	other.Address = "elsewhere"
	if _, err := pgengine.Open(other); !errors.Is(err, datadir.ErrLocked) || !strings.Contains(err.Error(), "process ") || strings.Contains(err.Error(), pgserver.Password) {
		t.Errorf("%v", err)
	}
}

// TestStoresBesideEachOther: one database can have several stores, each in a partition of its own.
func TestStoresBesideEachOther(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	other := w.cfg
	other.Part = 63
	db, err := pgengine.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	if db.LastKey() != 0 || w.db.LastKey() != 1 {
		t.Errorf("groups %d and %d", db.LastKey(), w.db.LastKey())
	}
	kvtest.Commit(t, db, map[string][]byte{"F": []byte("2")})
	for want, engine := range map[string]*pgengine.Database{"1": w.db, "2": db} {
		view := kv.On(engine.View(1))
		if got, err := view.Get([]byte("F")); string(got) != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		view.Close()
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestFailures: a store fails with an error if another owner has taken its partition, or if the database has
// lost an acknowledged commit.
func TestFailures(t *testing.T) {
	t.Parallel()
	for sql, damaged := range map[string]bool{
		"UPDATE pawl.part SET owner = 'another', epoch = epoch + 1": false,
		"UPDATE pawl.part SET commit_no = 0":                        true,
	} {
		w := newWay(t)
		failed := make(chan error, 1)
		w.db.StartMaintenance(context.Background(), engine.Callbacks{Fail: func(err error) { failed <- err }})
		w.query(t, sql)
		// A read may find the failure before the other calls.
		view := kv.On(w.db.View(1))
		_, unread := view.Get([]byte("F"))
		view.Close()
		if r := <-w.commit(); r.Outcome == kv.Stored {
			t.Errorf("%s: %+v", sql, r)
		}
		for what, err := range map[string]error{"a read": unread, "keep": <-failed, "look": w.db.Check()} {
			if !errors.Is(err, machine.ErrIndeterminate) || errors.Is(err, layout.ErrDamaged) != damaged {
				t.Errorf("%s: %s: %v", sql, what, err)
			}
		}
	}
}

// TestSizes: the engine measures the sizes of its tables from time to time.
func TestSizes(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	if err := w.db.Sync(); err != nil {
		t.Fatal(err)
	}
	if tree, log := w.db.Sizes(); tree < 8<<10 || log != 0 {
		t.Errorf("%d and %d bytes", tree, log)
	}
}
