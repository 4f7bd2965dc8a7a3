package store

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/memkv"
)

// counted is an engine that knows how many views are open, and were at most.
type counted struct {
	engine.Engine
	open, most *atomic.Int32
}

func (c counted) View(group uint64) kv.Snapshot { return c.counts(c.Engine.View(group)) }

func (c counted) Hold(group uint64) (kv.HeldGroup, error) {
	held, err := c.Engine.Hold(group)
	return countedHeld{held, c}, err
}

func (c counted) counts(view kv.Snapshot) kv.Snapshot {
	if now := c.open.Add(1); now > c.most.Load() {
		c.most.Store(now)
	}
	return countedView{view, c.open}
}

type countedHeld struct {
	kv.HeldGroup
	c counted
}

func (h countedHeld) View() kv.Snapshot { return h.c.counts(h.HeldGroup.View()) }

type countedView struct {
	kv.Snapshot
	open *atomic.Int32
}

func (v countedView) Close() {
	v.open.Add(-1)
	v.Snapshot.Close()
}

// TestReadsTakeOneView: on PostgreSQL a view has a connection, of which there are sixteen. Readers
// that each waited for a second one would wait for one another.
func TestReadsTakeOneView(t *testing.T) {
	t.Parallel()
	var open, most atomic.Int32
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "db"), MarkInterval: time.Hour, Engine: func(o Options) (engine.Engine, error) {
		e, err := memkv.Open(memkv.New(), o.Dir, nil)
		return counted{e, &open, &most}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.ReplayWith(replayTest)
	w, blob := fullWorld(t, s)
	w.do(runID(1), machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("x")}}})
	if w.recordsAfterHead(runID(1)) == 0 {
		t.Fatal("no record is behind the stored head: the test shows nothing")
	}
	replays := 0
	s.ReplayWith(func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error) {
		replays++
		if _, err := s.Pack(ctx, 0, "codegen@1.1.0"); err != nil {
			return nil, err
		}
		return replayTest(ctx, head, tail)
	})
	all := readers(w, blob, w.step(w.runs[runID(1)].At+int64(24*time.Hour)))
	for name, read := range all {
		if name == "Check" || name == "ProveAll" {
			continue // one at a time, which compile what they meet
		}
		most.Store(open.Load())
		if _, err := read(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if most.Load() > 1 {
			t.Errorf("%s has %d views open at once", name, most.Load())
		}
	}
	if replays == 0 {
		t.Error("nothing was replayed")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
