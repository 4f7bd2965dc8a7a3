package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
)

// TestWatchesShareTheirRoom: all watches whose readers have stopped share one limit of bytes, and
// each may hold one more commit. Their number makes no difference. A reader that continues gets
// everything in order, in small pieces.
func TestWatchesShareTheirRoom(t *testing.T) {
	t.Parallel()
	const room, watches, writes, size = 4 << 20, 100, 60, 40 << 10
	r := newRig(t, func(c *services.Config) {
		c.WatchBytes = room
		c.Limits = machine.Limits{MaxTransitions: 1000}
	})
	run := r.start("s1")
	token := run.Turn.Token
	for range writes {
		answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
			RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: token,
			Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte(strings.Repeat("x", size))}},
		})
		if err != nil {
			t.Fatal(err)
		}
		token = answer.Turn.Token
	}
	for name, req := range map[string]streams.Request{
		"all runs":  watchAll(everyone, streams.Filter{}),
		"one run":   watchAll(everyone, streams.Filter{RunID: run.RunID}),
		"snapshots": {Call: runtime.Call{Principal: everyone}, Snapshots: true},
	} {
		req.Follow = true
		var stalled []*streams.Watch
		held, most := 0, 0
		for range watches {
			w := r.watch(req)
			stalled = append(stalled, w)
			// The first record has no value.
			for range 2 {
				page, err := w.Next(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				most = size * len(page.Records)
				if len(page.Records) > 1 {
					break
				}
			}
			held += most
		}
		if limit := room + watches*size + room/4; held > limit {
			t.Errorf("%s: %d stalled watches hold %d bytes, want at most %d", name, watches, held, limit)
		}
		req.Follow = false
		if rows := r.rest(r.watch(req)); len(rows) != writes+1 {
			t.Errorf("%s: a reader beside them got %d rows, want %d", name, len(rows), writes+1)
		}
		for _, w := range stalled {
			w.Close()
		}
		w := r.watch(req)
		if page, err := w.Next(context.Background()); err != nil || len(page.Records) < 5 {
			t.Errorf("%s: with room again %d rows, %v", name, len(page.Records), err)
		}
		w.Close()
	}
}
