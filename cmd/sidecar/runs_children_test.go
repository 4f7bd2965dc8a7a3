package main

import (
	"fmt"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func requestedStep(step uint32, delegation bool) *pawlv1.Record {
	return &pawlv1.Record{Body: &pawlv1.Record_StepRequested{StepRequested: &pawlv1.StepRequested{Step: step, Tool: "helper", Attempt: 1, Delegation: delegation}}}
}

func delegatedStep(step uint32, task, card string) *pawlv1.Record {
	return &pawlv1.Record{Body: &pawlv1.Record_StepDelegated{StepDelegated: &pawlv1.StepDelegated{
		Step: step, Tool: "helper", Remote: &pawlv1.Remote{TaskId: task, CardUrl: card},
	}}}
}

func resolvedStep(step uint32, ok bool, next int32) *pawlv1.Record {
	return &pawlv1.Record{Body: &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{Step: step, Ok: ok, Next: next}}}
}

// TestChildren: one line for each attempt of a delegation, none for tools.
func TestChildren(t *testing.T) {
	t.Parallel()
	var list children
	for _, r := range []*pawlv1.Record{
		requestedStep(1, true), requestedStep(2, false), requestedStep(3, true), requestedStep(4, true), requestedStep(5, true),
		delegatedStep(3, "t3", ""), delegatedStep(1, "t1", "http://b/card"), resolvedStep(1, false, 2),
		resolvedStep(2, true, 0), delegatedStep(1, "t9", "http://b/card"), resolvedStep(1, true, 0),
		requestedStep(6, true), {Body: &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{
			Step: 6, Ok: true, ResultJson: `{"task_id":"t6","card_url":"http://b/card"}`,
		}}},
		{Body: &pawlv1.Record_StepCancelled{StepCancelled: &pawlv1.StepCancelled{Step: 4}}},
	} {
		list.add(r)
	}
	want := []string{
		"step 1: helper, error, task t1 of http://b/card",
		"step 3: helper, pending, run t3",
		"step 4: helper, cancelled",
		"step 5: helper, pending",
		"step 1, attempt 2: helper, ok, task t9 of http://b/card",
		"step 6: helper, ok, task t6 of http://b/card",
	}
	if got := fmt.Sprint([]*child(list)); got != fmt.Sprint(want) {
		t.Errorf("children\n%s\nwant\n%s", got, fmt.Sprint(want))
	}
}

func TestParent(t *testing.T) {
	t.Parallel()
	for want, parent := range map[string]*pawlv1.Parent{
		"":                   nil,
		"step 2 of R":        {RunId: "R", Step: 2},
		"step 2 of R at h:1": {RunId: "R", Step: 2, Origin: "h:1"},
	} {
		if got := parentOf(&pawlv1.Run{Parent: parent}); got != want {
			t.Errorf("parent %q, want %q", got, want)
		}
	}
}
