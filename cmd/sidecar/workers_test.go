package main

import (
	"encoding/json"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// TestShowWorker reads the text about a worker that holds a turn and a step.
func TestShowWorker(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	worker := &pawlv1.ConnectedWorker{
		WorkerId: "w1", Prompts: []string{"a", "b"}, HeldTurns: 1, TurnCapacity: 4, HeldSteps: 1, StepCapacity: 2, Draining: true,
		TurnCounts: &pawlv1.WorkCounts{Taken: 9, Failed: 2, Lost: 1}, FailingMoreThanPeers: true,
		LastFailure: &pawlv1.WorkFailure{RunId: "L", Tool: "refund", Attempt: 3, Lost: true, Error: &pawlv1.Fault{Code: "DEADLINE_EXCEEDED", Message: "no answer"}},
		Turns:       []*pawlv1.HeldWork{{RunId: "R", TurnSeq: 7, Attempt: 1}}, Steps: []*pawlv1.HeldWork{{RunId: "S", Step: 3, Tool: "refund", Attempt: 2}},
	}
	showWorker(&output.Printer{Out: &out}, worker, map[string]string{"R": "Step 1 (refund) waits for approval."})
	for _, want := range []string{"w1\n", "a, b\n", "1 of 4\n", "1 of 2\n", "draining, failing more than peers\n", "9 taken, 2 failed, 1 lost\n", "tool refund lost in run L, attempt 3: DEADLINE_EXCEEDED: no answer\n", "R 7, attempt 1", "  Step 1 (refund) waits for approval.\n", "S 3 (refund), attempt 2\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestShowWorkers: the workers of one id are shown, of all principals, and an id without a worker is an error.
func TestShowWorkers(t *testing.T) {
	t.Parallel()
	got := &pawlv1.ListWorkersResponse{TotalWorkers: 2, Workers: []*pawlv1.ConnectedWorker{
		{WorkerId: "w1", Principal: "alice"}, {WorkerId: "w1", Principal: "bob"},
	}}
	var out strings.Builder
	if err := showWorkers(&output.Printer{Out: &out}, "w1", got, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "alice") || !strings.Contains(out.String(), "bob") {
		t.Errorf("one is missing:\n%s", out.String())
	}
	out.Reset()
	if err := showWorkers(&output.Printer{Out: &out, JSON: true}, "w1", got, nil); err != nil || !json.Valid([]byte(out.String())) {
		t.Errorf("%v: no JSON document:\n%s", err, out.String())
	}
	for total, want := range map[int32]string{2: "is connected", 1001: "first 2 of 1001"} {
		got.TotalWorkers = total
		if err := showWorkers(&output.Printer{Out: &out}, "w2", got, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d workers: %v, want %q", total, err, want)
		}
	}
}
