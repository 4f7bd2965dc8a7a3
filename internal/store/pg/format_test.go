package pg_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestFormats: a new partition has the oldest format. A node that takes the partition raises the format to
// the newest one that all living nodes support. A node that does not support the present format cannot take
// the partition.
func TestFormats(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	w.cfg.Lease = time.Hour
	as := func(oldest, newest uint32, raise bool) pg.Config {
		cfg := w.cfg
		cfg.Formats = pg.Formats{Oldest: oldest, Newest: newest, Raise: raise}
		return cfg
	}
	taken := func(when string, cfg pg.Config, want uint32) {
		t.Helper()
		db, err := pg.Open(cfg)
		if err != nil {
			t.Fatal(when, err)
		}
		if got := db.Format(); got != want {
			t.Errorf("%s: it is in format %d, want %d", when, got, want)
		}
		kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	taken("made", as(2, 2, true), 2)
	w.query(t, "INSERT INTO pawl.node (id, address, key, leaving, speaks, lease_until, since) VALUES ('old', 'old:1', '', false, 2, now() + interval '1 h', now())")
	taken("an older one lives", as(2, 3, true), 2)
	taken("looked at", as(2, 4, false), 2)
	w.query(t, "UPDATE pawl.node SET speaks = 3")
	taken("it speaks one of them", as(2, 4, true), 3)
	w.query(t, "UPDATE pawl.node SET leaving = true")
	taken("it leaves", as(2, 4, true), 4)
	w.query(t, "UPDATE pawl.node SET leaving = false, lease_until = now()")
	taken("it is gone", as(3, 5, true), 5)
	for _, other := range []pg.Config{as(2, 4, true), as(6, 7, true)} {
		_, err := pg.Open(other)
		refused, ok := errors.AsType[*pg.FormatError](err)
		if want := (pg.FormatError{Schema: "pawl", Found: 5, Oldest: other.Formats.Oldest, Newest: other.Formats.Newest}); !ok || *refused != want || refused.Older() != (want.Oldest == 6) {
			t.Errorf("%v", err)
		}
	}
	beside := as(3, 5, false)
	beside.Part = 9
	taken("another partition begins in that of the first", beside, 5)
	db := open(t, as(5, 5, true))
	w.cfg.Owner, w.cfg.RenewedEpoch = "second", new(atomic.Uint64)
	if _, err := pg.Open(as(2, 4, true)); !isError[*pg.FormatError](err) {
		t.Errorf("while it is held: %v", err)
	}
	if _, err := pg.Open(w.cfg); !isError[*fencing.HeldError](err) {
		t.Errorf("who keeps it in any: %v", err)
	}
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("2")})
}

// TestTheFormatStays: the format of a partition does not change while it is owned, even if the owner has to
// take it again.
func TestTheFormatStays(t *testing.T) {
	t.Parallel()
	w := newWay(t, pgserver.Shared(t))
	w.cfg.Lease = time.Hour
	seeded, err := pg.Open(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := seeded.Close(); err != nil {
		t.Fatal(err)
	}
	w.query(t, "INSERT INTO pawl.node (id, address, key, leaving, speaks, lease_until, since) VALUES ('old', 'old:1', '', false, 2, now() + interval '1 h', now()); UPDATE pawl.part SET format = 2")
	cfg := w.cfg
	cfg.Formats = pg.Formats{Oldest: 2, Newest: 3, Raise: true}
	db := open(t, cfg)
	w.query(t, "DELETE FROM pawl.node")
	w.query(t, "SELECT pg_terminate_backend(backend_pid) FROM pawl.part")
	kvtest.Commit(t, db, map[string][]byte{"a": []byte("1")})
	if got := w.query(t, "SELECT epoch || ' ' || format FROM pawl.part"); got != "3 2" || db.Format() != 2 {
		t.Errorf("epoch and format are %s, and %d here", got, db.Format())
	}
}
