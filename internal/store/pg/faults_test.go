package pg_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// relayedDatabase is a database behind a relay.
type relayedDatabase struct {
	server *pgserver.Server
	name   string
	relay  *relay.Relay
	cfg    pg.Config
}

func newWay(t *testing.T, server *pgserver.Server) *relayedDatabase {
	t.Helper()
	raw := server.Database(t)
	name, _, _ := strings.Cut(raw[strings.LastIndex(raw, "/")+1:], "?")
	between := relay.Start(t, server.Addr())
	cfg := configOf(t, strings.Replace(raw, server.Addr(), between.Addr(), 1), "first")
	return &relayedDatabase{server: server, name: name, relay: between, cfg: cfg}
}

func (w *relayedDatabase) query(t *testing.T, sql string) string {
	t.Helper()
	return w.server.Query(t, w.name, sql)
}

// send starts the commit of a group and does not wait for its result.
func send(db *pg.DB, pairs map[string]string) (group uint64, results chan kv.Result) {
	group, results = db.LastKey()+1, make(chan kv.Result, 2)
	batch := db.Batch()
	for key, value := range pairs {
		batch.Set([]byte(key), []byte(value))
	}
	batch.Commit(group, func(r kv.Result) { results <- r })
	return group, results
}

func mustBeStored(t *testing.T, results chan kv.Result) {
	t.Helper()
	if r := result(t, results); r.Outcome != kv.Stored || r.Err != nil {
		t.Fatalf("%+v", r)
	}
}

func mustShow(t *testing.T, db *pg.DB, want map[string]string) {
	t.Helper()
	if got := kvtest.Pairs(t, kv.On(db.View(db.LastKey()))); !maps.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

// TestLostAnswer: a group is stored and the answer is lost. The owner finds the group and reports it as
// stored.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db := open(t, w.cfg)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	trap := w.relay.LoseAnswer("lost-answer")
	_, results := send(db, map[string]string{"b": "lost-answer"})
	<-trap.Triggered()
	mustBeStored(t, results)
	kvtest.Commit(t, db, map[string][]byte{"c": []byte("3")})
	mustShow(t, db, map[string]string{"a": "1", "b": "lost-answer", "c": "3"})
	if got := w.query(t, "SELECT epoch || ' ' || commit_no FROM pawl.part"); got != "2 3" {
		t.Errorf("epoch and group are %s, want 2 3: it was sent again", got)
	}
}

// TestCommitThatArrivesLate: the connection of a commit was abandoned, the group was sent again, and another
// group followed. The first statement arrives after that and changes nothing.
func TestCommitThatArrivesLate(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	w.cfg.Timeouts.Statement = 500 * time.Millisecond
	db := open(t, w.cfg)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	trap := w.relay.Delay("arrives-late")
	_, results := send(db, map[string]string{"a": "arrives-late"})
	<-trap.Triggered()
	mustBeStored(t, results)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("3")})
	trap.Deliver()
	w.server.Await(t, w.name, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pawl' AND state <> 'idle' AND datname = current_database()")
	kvtest.Commit(t, db, map[string][]byte{"b": []byte("4")})
	mustShow(t, db, map[string]string{"a": "3", "b": "4"})
}

// TestSessionsAreEnded: an operator ends the sessions again and again. All groups are still stored, and the
// owner takes the partition again each time.
func TestSessionsAreEnded(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db := open(t, w.cfg)
	want := map[string]string{}
	for n := range 150 {
		key := fmt.Sprint("key ", n)
		_, results := send(db, map[string]string{key: "there", "last": key})
		if n%5 == 0 {
			w.query(t, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'pawl' AND datname = current_database()")
		}
		mustBeStored(t, results)
		want[key], want["last"] = "there", key
	}
	mustShow(t, db, want)
	if epoch := w.query(t, "SELECT epoch > 5 FROM pawl.part"); epoch != "t" {
		t.Error("no commit was interrupted")
	}
}

// TestServerIsKilled: the server is killed and started again while a group waits. The owner reports that the
// database is unavailable in the meantime. All groups are stored afterwards.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	w := newWay(t, server)
	db := open(t, w.cfg)
	want := map[string]string{}
	for n := range 4 {
		for m := range 20 {
			key := fmt.Sprint(n, " ", m)
			_, results := send(db, map[string]string{key: "there"})
			if m == 10 {
				server.Kill(t)
				waitUntil(t, func() bool { return db.Owner().Unavailable() != nil })
				server.Restart(t)
			}
			mustBeStored(t, results)
			want[key] = "there"
		}
	}
	if db.Owner().Unavailable() != nil {
		t.Error("it is there again, and said to be away")
	}
	mustShow(t, db, want)
}

// waitUntil waits until holds returns true. The tests use it where no channel signals the event.
func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it does not come to that")
		}
	}
}

// awaitUnanswered waits until a query returns true. The test fails at once if the group is answered before
// that.
func (w *relayedDatabase) awaitUnanswered(t *testing.T, results <-chan kv.Result, sql string) {
	t.Helper()
	waitUntil(t, func() bool {
		select {
		case r := <-results:
			t.Fatalf("no standby has the group, and it was answered: %+v", r)
		default:
		}
		return w.query(t, sql) == "t"
	})
}

const inSync = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'pawl'"

// TestSuccessWithAWarningIsNone: the wait for a standby is cancelled, and PostgreSQL answers the commit with
// success and a warning. The owner reports no success before a standby has the group, even if
// client_min_messages of the role suppresses the warning.
func TestSuccessWithAWarningIsNone(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	server.Query(t, "postgres", "ALTER ROLE CURRENT_USER SET client_min_messages = error")
	w := newWay(t, server)
	db := open(t, w.cfg)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	server.Set(t, map[string]string{"synchronous_standby_names": "nobody"})
	_, results := send(db, map[string]string{"a": "2"})
	server.Await(t, w.name, "SELECT count(*) = 1 "+inSync)
	first := w.query(t, "SELECT pid "+inSync)
	w.query(t, "SELECT pg_cancel_backend("+first+")")
	// The commit was answered with success. The owner takes the partition again to find out whether the group
	// is durable, and this statement waits.
	w.awaitUnanswered(t, results, "SELECT count(*) = 1 "+inSync+" AND pid <> "+first)
	if got := w.query(t, "SELECT commit_no FROM pawl.part"); got != "2" {
		t.Errorf("others see group %s, and should see 2, which no standby has", got)
	}
	waitUntil(t, func() bool { return db.Owner().Unavailable() != nil })
	second := w.query(t, "SELECT pid "+inSync)
	w.query(t, "SELECT pg_cancel_backend("+second+")")
	w.awaitUnanswered(t, results, "SELECT count(*) = 1 "+inSync+" AND pid <> "+second)
	select {
	case r := <-results:
		t.Fatalf("no standby has it, and it was answered: %+v", r)
	default:
	}
	server.Set(t, map[string]string{"synchronous_standby_names": ""})
	mustBeStored(t, results)
	mustShow(t, db, map[string]string{"a": "2"})
}

// TestPausedClientHoldsTheRow: a client is paused in the middle of a transaction that has locked the row. The
// next owner waits for the end of the lease, ends this session and continues.
func TestPausedClientHoldsTheRow(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	first := open(t, w.cfg)
	kvtest.Commit(t, first, map[string][]byte{"a": []byte("1")})
	w.relay.Hold(relay.Requests)
	paused, err := pgx.Connect(context.Background(), w.server.URL(w.name))
	if err != nil {
		t.Fatal(err)
	}
	defer paused.Close(context.Background())
	if _, err := paused.Exec(context.Background(), "BEGIN; UPDATE pawl.part SET commit_no = commit_no + 1; INSERT INTO pawl.hot VALUES (0, 'b', 'never', 2)"); err != nil {
		t.Fatal(err)
	}
	second := open(t, configOf(t, w.server.URL(w.name), "second"))
	kvtest.Commit(t, second, map[string][]byte{"c": []byte("2")})
	mustShow(t, second, map[string]string{"a": "1", "c": "2"})
	if _, err := paused.Exec(context.Background(), "COMMIT"); err == nil {
		t.Error("the session that was paused goes on")
	}
	w.relay.Release(relay.Requests)
	<-first.Owner().Failed()
	if taken, ok := errors.AsType[*fencing.FencedError](first.Owner().Err()); !ok || taken.Owner != "second" {
		t.Errorf("%v", first.Owner().Err())
	}
}

// TestStoppedBeyondTheLease: an owner that is stopped for longer than its lease stores nothing afterwards.
// Its error names the next owner.
func TestStoppedBeyondTheLease(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	w.cfg.Lease = time.Second
	first := open(t, w.cfg)
	kvtest.Commit(t, first, map[string][]byte{"a": []byte("1")})
	w.relay.Hold(relay.Requests)
	_, results := send(first, map[string]string{"a": "stale"})
	second := open(t, configOf(t, w.server.URL(w.name), "second"))
	kvtest.Commit(t, second, map[string][]byte{"a": []byte("2")})
	w.relay.Release(relay.Requests)
	r := result(t, results)
	if taken, ok := errors.AsType[*fencing.FencedError](r.Err); r.Outcome == kv.Stored || !ok || taken.Owner != "second" {
		t.Errorf("%+v", r)
	}
	view := kv.On(first.View(1))
	defer view.Close()
	if value, err := view.Get([]byte("a")); err == nil {
		t.Errorf("it reads %q of a partition that is another's", value)
	}
	mustShow(t, second, map[string]string{"a": "2"})
}

// TestFullDisk: the disk of the database is full. The owner reports this, so that new work can be refused
// with the reason. The waiting group is stored when there is space again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db := open(t, w.cfg)
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	w.query(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$`)
	w.query(t, "CREATE TRIGGER full_disk BEFORE INSERT ON pawl.cold FOR EACH STATEMENT EXECUTE FUNCTION full_disk()")
	_, results := send(db, map[string]string{"a": "2"})
	waitUntil(t, func() bool { return pg.IsFull(db.Owner().Unavailable()) })
	mustShow(t, db, map[string]string{"a": "1"})
	w.query(t, "DROP TRIGGER full_disk ON pawl.cold")
	mustBeStored(t, results)
	mustShow(t, db, map[string]string{"a": "2"})
}

// TestFinalAnswers: a table is missing. The group is certainly not stored, and the owner stores no later
// group.
func TestFinalAnswers(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db := open(t, w.cfg)
	w.query(t, "ALTER TABLE pawl.cold RENAME TO other")
	_, results := send(db, map[string]string{"a": "1"})
	if r := result(t, results); r.Outcome != kv.NotStored || !isError[*fencing.FinalError](r.Err) {
		t.Errorf("%+v", r)
	}
	_, results = send(db, map[string]string{"a": "1"})
	if r := result(t, results); r.Outcome != kv.NotStored || r.Err == nil {
		t.Errorf("%+v", r)
	}
}

func isError[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// TestPutBackToAnOlderState: the database has lost an acknowledged group, as after a failover to a standby
// that lagged. The owner reports the loss and builds nothing on the older state.
func TestPutBackToAnOlderState(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db := open(t, w.cfg)
	for range 3 {
		kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	}
	w.query(t, "UPDATE pawl.part SET commit_no = 2")
	_, results := send(db, map[string]string{"a": "4"})
	r := result(t, results)
	if lost, ok := errors.AsType[*fencing.DataLossError](r.Err); r.Outcome == kv.Stored || !ok || lost.Acked != 3 || lost.Found != 2 {
		t.Errorf("%+v", r)
	}
	if got := w.query(t, "SELECT commit_no FROM pawl.part"); got != "2" {
		t.Errorf("group %s", got)
	}
}

// TestCloseWhileAway: while the database is unavailable, Close ends within its time limit. The outcome of the
// waiting group is unknown.
func TestCloseWhileAway(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	w.cfg.Timeouts.CloseTimeout = 100 * time.Millisecond
	db, err := pg.Open(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.relay.Refuse()
	_, results := send(db, map[string]string{"a": "1"})
	waitUntil(t, func() bool { return db.Owner().Unavailable() != nil })
	db.Owner().BeginClose()
	if r := result(t, results); r.Outcome != kv.Unknown || !isError[*fencing.AwayError](r.Err) {
		t.Errorf("%+v", r)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestContractThroughPgBouncer: the contract of kv.KV holds through PgBouncer in transaction mode.
func TestContractThroughPgBouncer(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	bouncer := server.Bouncer(t)
	kvtest.Run(t, func(t *testing.T) kv.KV {
		return open(t, configOf(t, strings.Replace(server.Database(t), server.Addr(), bouncer, 1), "first"))
	})
}

// TestNobodyGoesThroughTheWholeTable: commits and reads never read the whole table, even in a database
// without statistics about its rows.
func TestNobodyGoesThroughTheWholeTable(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	db := open(t, w.cfg)
	w.query(t, "ALTER TABLE pawl.cold SET (autovacuum_enabled = off)")
	const groups, keys = 5, 4000
	for n := range groups {
		pairs := map[string][]byte{}
		for m := range keys {
			pairs[fmt.Sprintf("a %d %05d", n, m)] = []byte("value")
		}
		kvtest.Commit(t, db, pairs)
	}
	for n := range 50 {
		pairs := map[string][]byte{fmt.Sprint("a new ", n): []byte("value")}
		for m := range 60 {
			pairs[fmt.Sprintf("a 1 %05d", n*60+m)] = nil
		}
		kvtest.Commit(t, db, pairs)
		view := kv.On(db.View(db.LastKey()))
		if value, err := view.Get(fmt.Appendf(nil, "a 2 %05d", n)); string(value) != "value" || err != nil {
			t.Fatalf("%q, %v", value, err)
		}
		for _, r := range []kv.Range{{Prefix: []byte("a 3")}, {}, {Reverse: true}} {
			it := view.Scan(r)
			if it.Seek([]byte("a 3 00100")); !it.Valid() {
				t.Fatalf("nothing: %v", view.Err())
			}
			it.Close()
		}
		view.Close()
	}
	w.server.Await(t, w.name, "SELECT n_tup_del = 3000 FROM pg_stat_user_tables WHERE relname = 'cold'")
	if read := w.query(t, "SELECT idx_tup_fetch + seq_tup_read < 20000 FROM pg_stat_user_tables WHERE relname = 'cold'"); read != "t" {
		t.Error("rows were read: ", w.query(t, "SELECT idx_tup_fetch || ' and ' || seq_tup_read FROM pg_stat_user_tables WHERE relname = 'cold'"))
	}
}
