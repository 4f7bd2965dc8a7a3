package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// soon bounds what a test waits for, so that a missing guard fails it within seconds.
const soon = 20 * time.Second

// result is the outcome of a group that was sent.
func result(t *testing.T, results <-chan kv.Result) kv.Result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(soon):
		t.Fatalf("the group has no outcome after %v", soon)
		return kv.Result{}
	}
}

// equalEpochs is an owner whose partition another one got with the epoch that it has itself, as after a
// failover to a standby that had not received the take-over: the rows differ in nothing but the owner.
func equalEpochs(t *testing.T, lease time.Duration) (w *relayedDatabase, first *pg.DB) {
	t.Helper()
	w = newWay(t, pgserver.Shared(t))
	w.cfg.Lease = lease
	first = open(t, w.cfg)
	kvtest.Commit(t, first, map[string][]byte{"a": []byte("1"), "b": []byte("1")})
	return w, first
}

func (w *relayedDatabase) handOver(t *testing.T) {
	t.Helper()
	w.query(t, "UPDATE pawl.part SET owner = 'second', address = 'second:1'")
}

// row is what the fence keeps.
func (w *relayedDatabase) row(t *testing.T) string {
	t.Helper()
	return w.query(t, "SELECT owner || ' ' || epoch || ' ' || commit_no FROM pawl.part")
}

func mustBeTaken(t *testing.T, err error) {
	t.Helper()
	if taken, ok := errors.AsType[*fencing.FencedError](err); !ok || taken.Owner != "second" || taken.Epoch != taken.Ours {
		t.Errorf("%v, want a TakenError with equal epochs", err)
	}
}

// TestEqualEpochsFenceACommit: the epoch alone is no fence. The statement of each sort of group changes nothing
// once another owner has the same epoch.
func TestEqualEpochsFenceACommit(t *testing.T) {
	t.Parallel()
	hot, cold := "b", "a" // by [at], kinds with an even number are hot
	for name, pairs := range map[string]map[string][]byte{
		"hot":           {hot: []byte("2")},
		"cold":          {cold + " new": []byte("2")},
		"cold, written": {cold: []byte("2")},
		"hot, gone":     {hot: nil},
		"cold, gone":    {cold: nil},
		"all":           {hot: []byte("2"), cold: nil, hot + " new": []byte("2"), cold + " new": []byte("2")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, first := equalEpochs(t, time.Hour)
			w.handOver(t)
			results := make(chan kv.Result, 2)
			batch := first.Batch()
			for key, value := range pairs {
				if value == nil {
					batch.Delete([]byte(key))
				} else {
					batch.Set([]byte(key), value)
				}
			}
			batch.Commit(first.LastKey()+1, func(r kv.Result) { results <- r })
			if r := result(t, results); r.Outcome == kv.Stored {
				t.Errorf("%+v: a partition of another owner was written", r)
			} else {
				mustBeTaken(t, r.Err)
			}
			if got := w.row(t); got != "second 1 1" {
				t.Errorf("the row is %q", got)
			}
			const both = "SELECT string_agg(convert_from(k, 'utf8') || '=' || convert_from(v, 'utf8'), ' ' ORDER BY k) FROM (SELECT k, v FROM pawl.hot UNION ALL SELECT k, v FROM pawl.cold) p"
			if got := w.query(t, both); got != "a=1 b=1" {
				t.Errorf("there is %q", got)
			}
		})
	}
}

// TestEqualEpochsFenceARenewal: an owner that only renews its lease finds out that the partition is another's.
func TestEqualEpochsFenceARenewal(t *testing.T) {
	t.Parallel()
	w, first := equalEpochs(t, time.Second)
	w.handOver(t)
	select {
	case <-first.Owner().Failed():
		mustBeTaken(t, first.Owner().Err())
	case <-time.After(soon):
		t.Errorf("it renews the lease of another owner: %s", w.row(t))
	}
}

// TestEqualEpochsFenceARelease: an owner that leaves gives back nothing but what it has.
func TestEqualEpochsFenceARelease(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	w.cfg.Lease = time.Hour
	first, err := pg.Open(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.handOver(t)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if got := w.query(t, "SELECT owner || ' ' || (lease_until > now()) FROM pawl.part"); got != "second true" {
		t.Errorf("the row is %q after another owner left", got)
	}
}

// TestEqualEpochsFenceAView: a view of a partition that another owner has shows nothing, also where epoch and
// number of the newest group are the same.
func TestEqualEpochsFenceAView(t *testing.T) {
	t.Parallel()
	w, first := equalEpochs(t, time.Hour)
	w.handOver(t)
	view := kv.On(first.View(first.LastKey()))
	defer view.Close()
	if value, err := view.Get([]byte("a")); !pg.IsForeign(err) {
		t.Errorf("%q, %v: want the error of a partition that another owner has", value, err)
	}
	if held, err := first.Hold(first.LastKey()); !pg.IsForeign(err) {
		t.Errorf("%v, %v: want the error of a partition that another owner has", held, err)
	}
}

// TestAnotherOwnerFencesKeysOfRuns: neither new pages nor written ones change once the partition is another's.
func TestAnotherOwnerFencesKeysOfRuns(t *testing.T) {
	t.Parallel()
	w, first := equalEpochs(t, time.Hour)
	keys := first.Keys(nil)
	t.Cleanup(func() { _ = keys.Close() })
	page := func(fill byte) []byte {
		b := make([]byte, 512)
		for i := range b {
			b[i] = fill
		}
		return b
	}
	if err := keys.Create(page('h')); err != nil {
		t.Fatal(err)
	}
	const pages = "SELECT string_agg(page || ' ' || md5(bytes), ',' ORDER BY page) FROM pawl.run_keys"
	before := w.query(t, pages)
	w.handOver(t)
	for name, write := range map[string]func() error{
		"a new page":           func() error { return keys.Write("give", page('n'), 512) },
		"a page that is there": func() error { return keys.Write("destroy", page('x'), 0) },
	} {
		if err := write(); err == nil {
			t.Errorf("%s was written in a partition of another owner", name)
		}
	}
	if after := w.query(t, pages); after != before {
		t.Errorf("the pages are %q, they were %q", after, before)
	}
}

// TestAnEarlierEpochIsFenced: what an owner sends under an epoch that it does not have any more stores, renews and
// gives back nothing. A statement of the earlier epoch may arrive when the group was said not to be stored.
func TestAnEarlierEpochIsFenced(t *testing.T) {
	t.Parallel()
	const newer = "UPDATE pawl.part SET epoch = 5"
	t.Run("commit", func(t *testing.T) {
		t.Parallel()
		w, first := equalEpochs(t, time.Hour)
		w.query(t, newer)
		_, results := send(first, map[string]string{"a": "2"})
		mustBeStored(t, results)
		if got := w.row(t); got != "first 6 2" {
			t.Errorf("the row is %q: the group was stored under the earlier epoch", got)
		}
	})
	t.Run("renewal", func(t *testing.T) {
		t.Parallel()
		w, first := equalEpochs(t, time.Second)
		w.query(t, newer)
		waitUntil(t, func() bool { return w.row(t) == "first 6 1" })
		if err := first.Owner().Err(); err != nil {
			t.Error(err)
		}
	})
	t.Run("release", func(t *testing.T) {
		t.Parallel()
		w := newWay(t, pgserver.Shared(t))
		w.cfg.Lease = time.Hour
		first, err := pg.Open(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.query(t, newer)
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if got := w.query(t, "SELECT owner || ' ' || (lease_until > now()) FROM pawl.part"); got != "first true" {
			t.Errorf("the row is %q: it was given back under an earlier epoch", got)
		}
	})
}

// TestAnEndedLeaseIsNotTakenAgain: an owner that finds out about its commit does not take the partition of
// another owner, also where the lease of that one has just ended.
func TestAnEndedLeaseIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	w, first := equalEpochs(t, time.Hour)
	w.query(t, "UPDATE pawl.part SET owner = 'second', address = 'second:1', lease_until = now() - interval '1 hour'")
	_, results := send(first, map[string]string{"a": "2"})
	if r := result(t, results); r.Outcome == kv.Stored {
		t.Errorf("%+v: it took the partition of another owner", r)
	} else {
		mustBeTaken(t, r.Err)
	}
	if got := w.row(t); got != "second 1 1" {
		t.Errorf("the row is %q", got)
	}
}

// session is a connection of its own to the database.
func (w *relayedDatabase) session(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.cfg.URL.Secret())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestALiveOwnersSessionIsNotEnded: only the owner itself, or another one after the end of the lease, ends the
// session that has the partition's row locked.
func TestALiveOwnersSessionIsNotEnded(t *testing.T) {
	t.Parallel()
	const live, over = "clock_timestamp() + interval '1 hour'", "clock_timestamp() - interval '1 second'"
	for _, tt := range []struct {
		name, lease, by string
		ended           int64
	}{
		{"another owner within the lease", live, "second", 0},
		{"another owner after the lease", over, "second", 1},
		{"the owner itself", live, "first", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWay(t, pgserver.Shared(t))
			db, err := pg.Open(w.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			w.query(t, "UPDATE pawl.part SET owner = 'first', lease_until = "+tt.lease)
			writer, by := w.session(t), w.session(t)
			if _, err := writer.Exec(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			if _, err := writer.Exec(t.Context(), "UPDATE pawl.part SET address = address"); err != nil {
				t.Fatal(err)
			}
			tag, err := by.Exec(t.Context(), pg.BlameText("pawl"), pgx.QueryExecModeExec, w.cfg.Part, tt.by)
			if err != nil {
				t.Fatal(err)
			}
			if tag.RowsAffected() != tt.ended {
				t.Errorf("%d sessions were ended, want %d", tag.RowsAffected(), tt.ended)
			}
			if err := writer.Ping(t.Context()); (err != nil) != (tt.ended > 0) {
				t.Errorf("the session that writes says %v", err)
			}
		})
	}
}

// TestALateWriteOfKeysChangesNothing: a page is replaced only where it still is what the writer read.
func TestALateWriteOfKeysChangesNothing(t *testing.T) {
	t.Parallel()
	w, _ := equalEpochs(t, time.Hour)
	conn := w.session(t)
	write := func(newPages []int64, newBytes [][]byte, pages []int64, old, with [][]byte) (n int64) {
		t.Helper()
		var warnings string
		err := conn.QueryRow(t.Context(), pg.KeysWriteText("pawl"), pgx.QueryExecModeExec,
			w.cfg.Part, "first", newPages, newBytes, pages, old, with).Scan(&n, &warnings)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	page := []int64{7}
	text := func(s string) [][]byte { return [][]byte{[]byte(s)} }
	if n := write(page, text("one"), nil, nil, nil); n != 1 {
		t.Fatalf("%d pages were made", n)
	}
	if n := write(nil, nil, page, text("one"), text("two")); n != 1 {
		t.Fatalf("%d pages were changed", n)
	}
	if n := write(nil, nil, page, text("one"), text("late")); n != 0 {
		t.Errorf("a write that was late changed %d pages", n)
	}
	if got := w.query(t, "SELECT convert_from(bytes, 'UTF8') FROM pawl.run_keys WHERE page = 7"); got != "two" {
		t.Errorf("the page is %q", got)
	}
}
