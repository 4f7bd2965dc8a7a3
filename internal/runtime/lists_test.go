package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/services"
)

func TestListRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	runs := r.busy(9)
	list := func(filter machine.RunFilter, size int) (ids []string) {
		for token := ""; ; {
			page, err := r.ListRuns(context.Background(), query.ListRunsRequest{
				Call: runtime.Call{Principal: reader}, Filter: filter, PageToken: token, PageSize: size,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Runs {
				ids = append(ids, s.RunID)
			}
			if token = page.NextPage; token == "" {
				return ids
			}
		}
	}
	if got := list(machine.RunFilter{Oldest: true}, 2); fmt.Sprint(got) != fmt.Sprint(runs) {
		t.Fatalf("runs %v, want %v", got, runs)
	}
	if got := list(machine.RunFilter{Status: []machine.Status{machine.Cancelled}}, 0); len(got) != 3 {
		t.Fatalf("cancelled %v", got)
	}
	for _, size := range []int{-1, validate.MaxPageSize + 1} {
		_, err := r.ListRuns(context.Background(), query.ListRunsRequest{Call: runtime.Call{Principal: reader}, PageSize: size})
		wantReason(t, err, "BAD_PAGE_SIZE")
	}
	_, err := r.ListRuns(context.Background(), query.ListRunsRequest{Call: runtime.Call{Principal: nobody}})
	wantReason(t, err, "SCOPE_MISSING")
}

func TestListTransitions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	token := run.Turn.Token
	for range 20 {
		token = r.emit(run.RunID, "Again", "", token).Turn.Token
	}
	if got := r.records(run.RunID); len(got) != 21 || got[20].Seq != 21 {
		t.Fatalf("%d records", len(got))
	}
	page, err := r.ListTransitions(context.Background(), streams.ListRecordsRequest{RunRef: ref(run.RunID, reader), AfterSeq: 19})
	if err != nil || len(page.Records) != 2 || page.NextPage != "" || page.Records[0].PrevSeq != 19 {
		t.Fatalf("%+v, %v", page, err)
	}
	_, err = r.ListTransitions(context.Background(), streams.ListRecordsRequest{RunRef: ref(run.RunID, reader), PageToken: "x"})
	wantReason(t, err, "BAD_PAGE_TOKEN")
	_, err = r.ListTransitions(context.Background(), streams.ListRecordsRequest{RunRef: ref("absent", reader)})
	wantReason(t, err, "RUN_NOT_FOUND")
	// A list is of one run: without an id it must not become a watch of all.
	_, err = r.ListTransitions(context.Background(), streams.ListRecordsRequest{RunRef: ref("", reader)})
	wantReason(t, err, "RUN_ID_REQUIRED")
}

func TestGetRunAtEveryRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	var firsts []*machine.State
	firsts = append(firsts, run.State)
	token := run.Turn.Token
	for i := range 300 {
		answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
			RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: token,
			Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte(fmt.Sprint(i))}, {Name: "log", Value: []byte(fmt.Sprint(i))}},
		})
		if err != nil {
			t.Fatal(err)
		}
		token = answer.Turn.Token
		firsts = append(firsts, answer.State)
	}
	for _, at := range []int{1, 2, 3, 100, 256, 257, 300, 301} {
		view, err := r.GetRun(context.Background(), query.GetRunRequest{RunRef: ref(run.RunID, reader), AtSeq: uint64(at), Artifacts: true})
		if err != nil {
			t.Fatal(err)
		}
		want := firsts[at-1]
		if view.State.Seq != want.Seq || view.State.TotalVisits != want.TotalVisits || view.State.PrevHash != want.PrevHash {
			t.Fatalf("at %d: %+v, want %+v", at, view.State, want)
		}
		if at == 1 && len(view.Artifacts) != 0 || at > 1 && string(view.Artifacts[1].Value) != fmt.Sprint(at-2) {
			t.Fatalf("at %d: artifacts %v", at, view.Artifacts)
		}
	}
	_, err := r.GetRun(context.Background(), query.GetRunRequest{RunRef: ref(run.RunID, reader), AtSeq: 302})
	wantReason(t, err, "RECORD_NOT_FOUND")
	_, err = r.GetRun(context.Background(), query.GetRunRequest{RunRef: ref(run.RunID, reader), AtSeq: math.MaxUint64})
	if refusal, _ := errors.AsType[*machine.Error](err); refusal == nil || refusal.Got != math.MaxInt64 {
		t.Fatalf("the last number there is: %+v", refusal)
	}
	_, err = r.GetRun(context.Background(), query.GetRunRequest{RunRef: ref(run.RunID, approver)})
	wantReason(t, err, "SCOPE_MISSING")
	if state, err := r.StateAt(context.Background(), ref(run.RunID, reader), 7); err != nil || state.Seq != 7 {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestCancelCascades(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	top := r.start("top")
	child := func(id, parent string, depth int) string {
		req := startRequest(id)
		req.Parent, req.Depth = &machine.Parent{RunID: parent, Step: 1, Attempt: 1}, depth
		return r.startWith(req).RunID
	}
	middle := child("middle", top.RunID, 1)
	bottom := child("bottom", middle, 2)
	sibling := child("sibling", top.RunID, 1)
	if _, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(sibling, everyone)}); err != nil {
		t.Fatal(err)
	}
	stranger := r.start("stranger")
	cancel := runtime.ControlRequest{RunRef: ref(top.RunID, everyone), ID: "c", Note: "enough", Cascade: true}
	if _, err := r.CancelRun(ctx, cancel); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{top.RunID, middle, bottom, sibling} {
		if s := r.view(id).State; s.Status != machine.Cancelled {
			t.Fatalf("run %s is %v", id, s.Status)
		}
	}
	if s := r.view(stranger.RunID).State; s.Status.Terminal() {
		t.Fatal("a stranger was cancelled")
	}
	late := child("late", bottom, 3)
	if again, err := r.CancelRun(ctx, cancel); err != nil || !again.Duplicate {
		t.Fatalf("%+v, %v", again, err)
	}
	if s := r.view(late).State; s.Status != machine.Cancelled {
		t.Fatal("a repeated cancellation does not finish the cascade")
	}
	cancel.ID = "other"
	_, err := r.CancelRun(ctx, cancel)
	wantReason(t, err, "RUN_TERMINAL")
}

func TestWaitRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	type result struct {
		state   *machine.State
		settled bool
		err     error
	}
	wait := func(ctx context.Context, req streams.WaitRequest) chan result {
		req.RunRef = ref(run.RunID, reader)
		done := make(chan result, 1)
		go func() {
			s, settled, err := r.WaitRun(ctx, req)
			done <- result{s, settled, err}
		}()
		return done
	}
	late := wait(context.Background(), streams.WaitRequest{Most: time.Second})
	r.clock.AwaitAlarm(time.Second)
	r.clock.Advance(time.Second)
	if got := <-late; got.err != nil || got.settled || got.state.Status != machine.Running {
		t.Fatalf("%+v", got)
	}
	moved := wait(context.Background(), streams.WaitRequest{AfterSeq: run.State.Seq})
	waiting := wait(context.Background(), streams.WaitRequest{})
	again := r.emit(run.RunID, "Again", "", run.Turn.Token)
	if got := <-moved; got.err != nil || !got.settled || got.state.Seq != again.State.Seq {
		t.Fatalf("%+v", got)
	}
	r.emit(run.RunID, "Ask", "", again.Turn.Token)
	if got := <-waiting; got.err != nil || !got.settled || got.state.Status != machine.Waiting {
		t.Fatalf("%+v", got)
	}
	ctx, leave := context.WithCancel(context.Background())
	gone := wait(ctx, streams.WaitRequest{AfterSeq: 99})
	leave()
	if got := <-gone; got.err != context.Canceled {
		t.Fatalf("%+v", got)
	}
	if _, _, err := r.WaitRun(context.Background(), streams.WaitRequest{RunRef: ref("absent", reader)}); reason(err) != "RUN_NOT_FOUND" {
		t.Fatal(err)
	}
}

func TestRunsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *services.Config) { c.MaxRunsInFlight = 3 })
	var runs []runtime.Answer
	for i := range 3 {
		runs = append(runs, r.start(fmt.Sprint("s", i)))
	}
	_, err := r.StartRun(context.Background(), startRequest("s3"))
	wantReason(t, err, "RUNS_IN_FLIGHT")
	if again := r.start("s1"); !again.Duplicate {
		t.Fatal("a repeat is not answered at the limit")
	}
	// The next process counts what it finds.
	r.restart()
	_, err = r.StartRun(context.Background(), startRequest("s3"))
	wantReason(t, err, "RUNS_IN_FLIGHT")
	if _, err := r.CancelRun(context.Background(), runtime.ControlRequest{RunRef: ref(runs[0].RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	r.start("s3")
	_, err = r.StartRun(context.Background(), startRequest("s4"))
	wantReason(t, err, "RUNS_IN_FLIGHT")
}

// TestAPageIsBoundedByBytes: large records end a page before its size does.
func TestAPageIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	token := run.Turn.Token
	for range 60 {
		answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
			RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: token,
			Artifacts: []machine.ArtifactWrite{{Name: "note", Value: make([]byte, 60<<10)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		token = answer.Turn.Token
	}
	page, err := r.ListTransitions(context.Background(), streams.ListRecordsRequest{RunRef: ref(run.RunID, reader), PageSize: 100})
	if n := len(page.Records); err != nil || n < 30 || n > 40 || page.NextPage == "" {
		t.Fatalf("%d records, next %q, %v", n, page.NextPage, err)
	}
}
