package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
)

var allKinds = func() []machine.RecordKind {
	var kinds []machine.RecordKind
	for k := machine.RecTransition; k <= machine.RecTurnReady; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}()

func watchAll(p runtime.Principal, filter streams.Filter) streams.Request {
	return streams.Request{Call: runtime.Call{Principal: p}, Filter: filter}
}

func (r *rig) watch(req streams.Request) *streams.Watch {
	r.t.Helper()
	w, err := r.Watch(context.Background(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// rest reads a watch to its end.
func (r *rig) rest(w *streams.Watch) []runtime.RecordRow {
	r.t.Helper()
	defer w.Close()
	var rows []runtime.RecordRow
	for {
		page, err := w.Next(context.Background())
		if errors.Is(err, streams.ErrEnded) {
			return rows
		}
		if err != nil {
			r.t.Fatal(err)
		}
		rows = append(rows, page.Records...)
	}
}

// busy makes some runs of many kinds of records, and ends some of them.
func (r *rig) busy(n int) []string {
	r.t.Helper()
	ctx := context.Background()
	var runs []string
	for i := range n {
		req := startRequest(fmt.Sprint("busy", i))
		req.Labels = []machine.Label{{Key: "team", Value: fmt.Sprint(i % 2)}}
		run := r.startWith(req)
		runs = append(runs, run.RunID)
		token := run.Turn.Token
		for j := range i % 4 {
			if _, err := r.SendInput(ctx, runtime.InputRequest{RunRef: ref(run.RunID, everyone), Parts: []machine.Part{{Kind: machine.PartText, Text: "x"}}}); err != nil {
				r.t.Fatal(err)
			}
			if _, err := r.request(run.RunID, token, call("write_file", fmt.Sprintf(`{"n":%d}`, j))); err != nil {
				r.t.Fatal(err)
			}
			token = r.emit(run.RunID, "Again", "", token).Turn.Token
		}
		switch i % 3 {
		case 0:
			if _, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
				r.t.Fatal(err)
			}
		case 1:
			r.emit(run.RunID, "Ask", "", token)
		}
	}
	return runs
}

// TestPrevSeqProvesThatNothingIsMissing: under any filter, prev_seq of a row names the row of the
// same run that the watch returned before it, from wherever the reader resumes.
func TestPrevSeqProvesThatNothingIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	runs := r.busy(12)
	filters := map[string]streams.Filter{
		"default":    {},
		"everything": {Kinds: allKinds},
		"ends":       {Kinds: []machine.RecordKind{machine.RecEnded}},
		"steps":      {Kinds: []machine.RecordKind{machine.RecStepRequested, machine.RecEnded}},
		"gate":       {States: []string{"gate"}, Kinds: allKinds},
		"waiting":    {Status: []machine.Status{machine.Waiting}, Kinds: allKinds},
		"cancelled":  {Status: []machine.Status{machine.Cancelled}},
		"team":       {Labels: []machine.Label{{Key: "team", Value: "1"}}},
		"pack":       {Pack: "loop@1.0.0"},
		"one run":    {RunID: runs[3], Kinds: allKinds},
		"no pack":    {Pack: "other"},
		"no parent":  {Parent: runs[0]},
	}
	for name, filter := range filters {
		whole := r.rest(r.watch(watchAll(everyone, filter)))
		if none := name == "no pack" || name == "no parent"; none != (len(whole) == 0) {
			t.Fatalf("%s: %d rows", name, len(whole))
		}
		checkPrevSeqs(t, name, whole)
		for i, row := range whole {
			req := watchAll(everyone, filter)
			req.AfterCursor = row.Cursor.String()
			rest := r.rest(r.watch(req))
			if !sameRows(rest, whole[i+1:]) {
				t.Fatalf("%s: %d rows behind row %d, want %d the same", name, len(rest), i, len(whole)-i-1)
			}
		}
	}
}

func checkPrevSeqs(t *testing.T, name string, rows []runtime.RecordRow) {
	t.Helper()
	last := map[string]uint64{}
	for _, row := range rows {
		if row.PrevSeq != last[row.RunID] {
			t.Fatalf("%s: run %s record %d has prev_seq %d, want %d", name, row.RunID, row.Record.Seq, row.PrevSeq, last[row.RunID])
		}
		last[row.RunID] = row.Record.Seq
	}
}

func sameRows(a, b []runtime.RecordRow) bool {
	return slices.EqualFunc(a, b, func(x, y runtime.RecordRow) bool {
		return x.RunID == y.RunID && x.Record.Seq == y.Record.Seq && x.PrevSeq == y.PrevSeq && x.Cursor == y.Cursor
	})
}

func TestFiltersByMomentFollowTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	asked := r.emit(run.RunID, "Ask", "", run.Turn.Token)
	if _, err := r.CancelRun(context.Background(), runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	gate := r.rest(r.watch(watchAll(everyone, streams.Filter{RunID: run.RunID, States: []string{"gate"}})))
	if len(gate) != 2 || gate[0].Record.Seq != asked.State.VisitSeq {
		t.Fatalf("rows in the gate: %+v", gate)
	}
	running := r.rest(r.watch(watchAll(everyone, streams.Filter{Status: []machine.Status{machine.Running}})))
	if len(running) != 1 || running[0].Record.Seq != 1 {
		t.Fatalf("running rows: %+v", running)
	}
}

// TestWatchResumesWithoutGapOrRepeat follows writers while its connection breaks at random, also in
// the middle of a page. At the end it has everything exactly once.
func TestWatchResumesWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *services.Config) { c.TailBytes = 64 << 10 })
	const writers, rounds = 4, 60
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			run := r.start(fmt.Sprint("w", w))
			token := run.Turn.Token
			for range rounds {
				token = r.emit(run.RunID, "Again", "", token).Turn.Token
			}
		})
	}
	const want = writers * (rounds + 1)
	rng := rand.New(rand.NewPCG(1, 2))
	var got []runtime.RecordRow
	cursor := ""
	for len(got) < want {
		req := watchAll(everyone, streams.Filter{})
		req.Follow, req.AfterCursor = true, cursor
		w := r.watch(req)
		for pages := 1 + rng.IntN(3); pages > 0 && len(got) < want; pages-- {
			page, err := w.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			// The connection breaks after some of the page's rows arrived.
			keep := len(page.Records)
			if pages == 1 {
				keep = 1 + rng.IntN(keep)
			}
			got = append(got, page.Records[:keep]...)
			cursor = got[len(got)-1].Cursor.String()
		}
		w.Close()
	}
	all.Wait()
	checkPrevSeqs(t, "resumed", got)
	if !sameRows(got, r.rest(r.watch(watchAll(everyone, streams.Filter{})))) {
		t.Fatal("what was followed is not what is stored")
	}
}

func TestFollowedRunEndsTheWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	req := watchAll(reader, streams.Filter{RunID: run.RunID})
	req.Follow = true
	w := r.watch(req)
	rows := make(chan []runtime.RecordRow)
	go func() { rows <- r.rest(w) }()
	r.emit(run.RunID, "Again", "", run.Turn.Token)
	if _, err := r.CancelRun(context.Background(), runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	if got := <-rows; len(got) != 3 {
		t.Fatalf("%d rows", len(got))
	}
	// A run that has ended already ends the watch behind its last record, too.
	req.AfterSeq = 1
	if got := r.rest(r.watch(req)); len(got) != 2 || got[0].PrevSeq != 1 {
		t.Fatalf("rows %+v", got)
	}
}

func TestHeartbeatsCarryWhatWasScanned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := watchAll(reader, streams.Filter{Kinds: []machine.RecordKind{machine.RecPaused}})
	req.Follow = true
	w := r.watch(req)
	defer w.Close()
	r.start("s1")
	r.start("s2")
	pages := make(chan streams.Page, 1)
	next := func() {
		page, err := w.Next(context.Background())
		if err != nil {
			t.Error(err)
		}
		pages <- page
	}
	go next()
	r.clock.AwaitAlarm(15 * time.Second)
	r.clock.Advance(15 * time.Second)
	page := <-pages
	if !page.Heartbeat || page.Cursor.Position != 2 {
		t.Fatalf("page %+v", page)
	}
	req.AfterCursor = page.Cursor.String()
	run := r.start("s3")
	if _, err := r.PauseRun(context.Background(), runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	req.Follow = false
	if rows := r.rest(r.watch(req)); len(rows) != 1 || rows[0].Cursor.Position != 4 {
		t.Fatalf("rows %+v", rows)
	}
}

func TestWatchIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	other := newRig(t)
	other.start("s1")
	foreign := other.rest(other.watch(watchAll(everyone, streams.Filter{})))[0].Cursor
	ahead := r.rest(r.watch(watchAll(everyone, streams.Filter{})))[0].Cursor
	ahead.Position += 5
	tests := []struct {
		name string
		req  streams.Request
		want string
	}{
		{"foreign cursor", streams.Request{AfterCursor: foreign.String()}, "CURSOR_FOREIGN"},
		{"cursor ahead", streams.Request{AfterCursor: ahead.String()}, "CURSOR_AHEAD"},
		{"no cursor", streams.Request{AfterCursor: "xyz"}, "BAD_CURSOR"},
		{"absent run", streams.Request{Filter: streams.Filter{RunID: "absent"}}, "RUN_NOT_FOUND"},
		{"record ahead", streams.Request{Filter: streams.Filter{RunID: run.RunID}, AfterSeq: 9}, "SEQ_AHEAD"},
		{"unseen run", streams.Request{Call: runtime.Call{Principal: nobody}, Filter: streams.Filter{RunID: run.RunID}}, "RUN_NOT_FOUND"},
		{"not a reader", streams.Request{Call: runtime.Call{Principal: nobody}}, "SCOPE_MISSING"},
		{"namespace", streams.Request{Call: runtime.Call{Namespace: "x"}}, "NAMESPACE_NOT_FOUND"},
	}
	for _, tt := range tests {
		if tt.req.Principal.Name() == "" {
			tt.req.Principal = everyone
		}
		_, err := r.Watch(context.Background(), tt.req)
		if got := reason(err); got != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestSnapshotsAreTheRunAtEachRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	token := run.Turn.Token
	for i := range 5 {
		answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
			RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: token,
			Artifacts: []machine.ArtifactWrite{{Name: "log", Value: []byte(fmt.Sprint(i))}, {Name: "note", Value: []byte(fmt.Sprint("n", i))}},
		})
		if err != nil {
			t.Fatal(err)
		}
		token = answer.Turn.Token
	}
	for after := range uint64(6) {
		req := watchAll(everyone, streams.Filter{RunID: run.RunID})
		req.Snapshots, req.AfterSeq = true, after
		for i, row := range r.rest(r.watch(req)) {
			view, err := r.GetRun(context.Background(), query.GetRunRequest{RunRef: ref(run.RunID, everyone), AtSeq: row.Record.Seq, Artifacts: true})
			if err != nil {
				t.Fatal(err)
			}
			snap := row.Snapshot
			if snap.State.Seq != row.Record.Seq || snap.State.TotalVisits != int(after)+i+1 || snap.State.PrevHash != row.Hash {
				t.Fatalf("snapshot %+v at record %d", snap.State, row.Record.Seq)
			}
			if fmt.Sprint(snap.Artifacts) != fmt.Sprint(view.Artifacts) || snap.State.PrevHash != view.State.PrevHash {
				t.Fatalf("record %d: snapshot %v, GetRun %v", row.Record.Seq, snap.Artifacts, view.Artifacts)
			}
		}
	}
}
