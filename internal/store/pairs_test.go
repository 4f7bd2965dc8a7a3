package store

import (
	"context"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/memkv"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestSamePairs: one sequence of batches, one after the other, leaves the same pairs in every
// engine, byte for byte, each set by the same group.
func TestSamePairs(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		samePairs(t, func(o Options) (engine.Engine, error) {
			e, err := memkv.Open(memkv.New(), o.Dir, nil)
			return e, err
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgserver.Database(t)
		samePairs(t, func(o Options) (engine.Engine, error) { return openPostgresAt(url, o) })
	})
}

func samePairs(t *testing.T, engineOf func(Options) (engine.Engine, error)) {
	t.Helper()
	open := func(e func(Options) (engine.Engine, error)) *Store {
		return openTemp(t, func(o *Options) {
			o.Dir, o.epoch, o.MarkInterval, o.Engine = filepath.Join(t.TempDir(), "db"), new([16]byte), time.Hour, e
		})
	}
	for seed := range uint64(4) {
		badger, other := open(nil), open(engineOf)
		sequence(t, badger, seed)
		sequence(t, other, seed)
		want, got := pairsOf(t, badger), pairsOf(t, other)
		if len(want) < 200 || !maps.Equal(got, want) {
			for key, value := range want {
				if got[key] != value {
					t.Errorf("seed %d: %x is %q, in Badger %q", seed, key, got[key], value)
				}
			}
			t.Errorf("seed %d: %d pairs, Badger has %d", seed, len(got), len(want))
		}
	}
}

// sequence drives runs by a seed, and everything else that is stored.
func sequence(t *testing.T, s *Store, seed uint64) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, seed))
	w, _ := fullWorld(t, s)
	ctx := context.Background()
	for n := 10; n < 40; n++ {
		run := runID(n)
		switch dice.IntN(4) {
		case 0:
			w.live(run)
		case 1:
			w.live(run)
			w.end(run)
			w.delete(run)
		case 2:
			w.long(run)
		case 3:
			w.start(run)
		}
		if dice.IntN(5) == 0 {
			if _, err := s.PutPack(ctx, 0, putOf("other", run, dice.IntN(2) == 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.SweepBlobs(ctx, 0, testTime+1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TrimDeadLetters(ctx, 0, 0, 2); err != nil {
		t.Fatal(err)
	}
	if err := s.DropSubscription(ctx, webhook); err != nil {
		t.Fatal(err)
	}
	w.check()
}

// pairsOf are all pairs, each with the group that set it.
func pairsOf(t *testing.T, s *Store) map[string]string {
	t.Helper()
	pairs := kvtest.Pairs(t, kv.On(s.engine.View(s.readTimestamps.durable())))
	view := kv.On(s.engine.View(s.readTimestamps.durable()))
	defer view.Close()
	it := view.Scan(kv.Range{KeysOnly: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		pairs[string(it.Key())] += "\x00" + strconv.FormatUint(it.Group(), 10)
	}
	return pairs
}
