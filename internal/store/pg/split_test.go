package pg_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/memkv"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// inPart returns the configuration of an owner of a partition.
func inPart(t *testing.T, raw, owner string, part int32) pg.Config {
	t.Helper()
	cfg := configOf(t, raw, owner)
	cfg.Part = part
	return cfg
}

// filledFirst fills partition 0 of a database with pairs in both tables, in several groups, and returns its
// owner.
func filledFirst(t *testing.T, raw string) *pg.DB {
	t.Helper()
	db, err := pg.Open(configOf(t, raw, "first"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		pairs := map[string][]byte{"F": []byte("format"), "G": []byte("group"), "z": []byte("lost"), "za": []byte("lost")}
		for _, prefix := range []string{"a1", "a2", "b1", "b2", "b\xff", "c1"} {
			pairs[fmt.Sprint(prefix, n)] = []byte(prefix)
		}
		kvtest.Commit(t, db, pairs)
	}
	return db
}

// shares are the parts of the store that partitions 3 and 9 get.
var shares = []pg.Share{
	{Part: 3, Names: []string{"one"}, Moved: [][]byte{[]byte("a1"), []byte("b1")}, Copied: [][]byte{[]byte("F"), []byte("G"), []byte("absent")}},
	{Part: 9, Names: []string{"two", "three"}, Moved: [][]byte{[]byte("b2"), []byte("b\xff")}, Copied: [][]byte{[]byte("F")}},
}

// sums returns a text that changes with any row, except the owners of partitions.
func sums(t *testing.T, raw string) string {
	t.Helper()
	return query(t, raw, `SELECT (SELECT md5(coalesce(string_agg(r::text, '' ORDER BY part, k), '')) FROM pawl.hot r) || (SELECT md5(coalesce(string_agg(r::text, '' ORDER BY part, k), '')) FROM pawl.cold r)
		|| (SELECT coalesce(string_agg(r::text, ' ' ORDER BY name), '') FROM pawl.namespace r) || (SELECT string_agg(id || ':' || commit_no || ':' || format, ' ' ORDER BY id) FROM pawl.part WHERE commit_no > 0)`)
}

// TestSpread: Split moves ranges of keys and copies keys, each with its group.
func TestSpread(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	db := filledFirst(t, raw)
	query(t, raw, "INSERT INTO pawl.namespace VALUES ('default', 0), ('one', 0), ('two', 9), ('new', 3)")
	places, taken, err := db.Placements(t.Context())
	if err != nil || !maps.Equal(places, map[string]int32{"default": 0, "one": 0, "two": 9, "new": 3}) || len(taken) != 1 || taken[0] != 0 {
		t.Errorf("%v, %v, %v", places, taken, err)
	}
	all, last := pairsWithGroups(t, db), db.LastKey()
	// An owner that had the partition without a commit is fenced.
	query(t, raw, "INSERT INTO pawl.part (id, epoch, owner, format) VALUES (9, 7, 'gone', 1)")
	if err := db.Split(t.Context(), shares, []byte("z")); err != nil {
		t.Fatal(err)
	}
	want := map[int32]map[string]string{0: {}, 3: {"F": all["F"], "G": all["G"]}, 9: {"F": all["F"]}}
	for key, value := range all {
		switch key[:1] {
		case "z":
			continue
		case "b":
			part := int32(9)
			if key[1] == '1' {
				part = 3
			}
			want[part][key] = value
			continue
		}
		if strings.HasPrefix(key, "a1") {
			want[3][key] = value
			continue
		}
		want[0][key] = value
	}
	for part, pairs := range want {
		got := open(t, inPart(t, raw, "next", part))
		if !maps.Equal(pairsWithGroups(t, got), pairs) || got.LastKey() != last {
			t.Errorf("partition %d is at %d: %v, want %v", part, got.LastKey(), pairsWithGroups(t, got), pairs)
		}
	}
	if placed := query(t, raw, "SELECT string_agg(name || part, ' ' ORDER BY name) FROM pawl.namespace"); placed != "default0 new3 one3 three9 two9" {
		t.Error(placed)
	}
	if row := query(t, raw, "SELECT count(*) FROM pawl.part WHERE id IN (3, 9) AND format = (SELECT format FROM pawl.part WHERE id = 0) AND owner <> 'gone' AND epoch = CASE id WHEN 9 THEN 9 ELSE 2 END"); row != "2" {
		t.Error(query(t, raw, "SELECT string_agg(p::text, ' ') FROM pawl.part p"))
	}
}

// TestSpreadIsRefused: Split is refused if a target partition has pairs or an owner, if a node lives, if a
// namespace is in another partition, or if another owner has taken the first partition in the meantime. A
// refusal changes nothing.
func TestSpreadIsRefused(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a store":         "INSERT INTO pawl.part (id, commit_no) VALUES (9, 1)",
		"another's":       "INSERT INTO pawl.part (id, owner, lease_until) VALUES (3, 'x', now() + interval '1 minute')",
		"a node":          "INSERT INTO pawl.node VALUES ('n', 'elsewhere:1', '', false, now() + interval '1 minute', now())",
		"a namespace":     "INSERT INTO pawl.namespace VALUES ('two', 4)",
		"taken":           "UPDATE pawl.part SET owner = 'x', epoch = epoch + 1, lease_until = now() + interval '1 minute' WHERE id = 0",
		"pairs of nobody": "INSERT INTO pawl.cold VALUES (3, 'a12', '', 1)",
	} {
		raw := pgserver.Database(t)
		db := filledFirst(t, raw)
		query(t, raw, sql)
		before := sums(t, raw)
		err := db.Split(t.Context(), shares, []byte("z"))
		alive, ok := errors.AsType[*pg.AliveError](err)
		if err == nil || ok != (name == "a node") || ok && alive.Address != "elsewhere:1" {
			t.Errorf("%s: %v", name, err)
		}
		if sums(t, raw) != before {
			t.Errorf("%s: something was changed", name)
		}
	}
}

// TestLoading: a loader creates several partitions together, or none.
func TestLoading(t *testing.T) {
	t.Parallel()
	raw := pgserver.Database(t)
	from, ring := source(t)
	other := memkv.New()
	kvtest.Commit(t, other, map[string][]byte{"a": []byte("other"), "b": []byte("other")})
	load := func(places map[string]int32, meanwhile string) (err error) {
		db, err := pg.Open(configOf(t, raw, "mover"))
		if err != nil {
			t.Fatal(err)
		}
		l, err := db.NewLoader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		for part, e := range map[int32]kv.KV{0: from, 5: other} {
			keys := loadInto(ring)
			if part == 5 {
				keys = func(*pg.LoadedKeys) error { return nil }
			}
			if err := l.Fill(part, e, keys); err != nil {
				return err
			}
		}
		if meanwhile != "" {
			query(t, raw, meanwhile)
		}
		return l.Commit(places)
	}
	for meanwhile, left := range map[string]string{
		"INSERT INTO pawl.namespace VALUES ('x', 2)":                                  "DELETE FROM pawl.namespace",
		"UPDATE pawl.part SET epoch = epoch + 1 WHERE id = 5":                         "SELECT 1",
		"UPDATE pawl.part SET lease_until = now() + interval '1 minute' WHERE id = 5": "UPDATE pawl.part SET lease_until = '-infinity' WHERE id = 5",
		"UPDATE pawl.part SET commit_no = 1 WHERE id = 5":                             "UPDATE pawl.part SET commit_no = 0 WHERE id = 5",
		"UPDATE pawl.part SET owner = 'another', epoch = epoch + 1 WHERE id = 0":      "UPDATE pawl.part SET owner = '', lease_until = '-infinity' WHERE id = 0",
	} {
		if err := load(map[string]int32{"x": 5}, meanwhile); err == nil {
			t.Errorf("%s: it went on", meanwhile)
		}
		query(t, raw, left)
		if left := query(t, raw, "SELECT (SELECT count(*) FROM pawl.hot) + (SELECT count(*) FROM pawl.cold) + (SELECT count(*) FROM pawl.run_keys) + (SELECT count(*) FROM pawl.namespace) + (SELECT sum(commit_no) FROM pawl.part)"); left != "0" {
			t.Errorf("%s: it left %s", meanwhile, left)
		}
	}
	if err := load(map[string]int32{"x": 5, "y": 0}, ""); err != nil {
		t.Fatal(err)
	}
	for part, e := range map[int32]kv.KV{0: from, 5: other} {
		if got := open(t, inPart(t, raw, "next", part)); !maps.Equal(pairsWithGroups(t, got), pairsWithGroups(t, e)) || got.LastKey() != e.LastKey() {
			t.Errorf("partition %d is at %d, want %d", part, got.LastKey(), e.LastKey())
		}
	}
	if placed := query(t, raw, "SELECT string_agg(name || part, ' ' ORDER BY name) FROM pawl.namespace"); placed != "x5 y0" {
		t.Error(placed)
	}
	if keys := query(t, raw, "SELECT count(DISTINCT part) || ' ' || max(part) FROM pawl.run_keys"); keys != "1 0" {
		t.Error(keys)
	}
}
