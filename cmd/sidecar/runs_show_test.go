package main

import (
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func TestLastError(t *testing.T) {
	t.Parallel()
	fault := &pawlv1.Fault{Code: "BUSY", Message: "no room"}
	turn := &pawlv1.Record{Seq: 3, Body: &pawlv1.Record_TurnFailed{TurnFailed: &pawlv1.TurnFailed{TurnSeq: 2, Attempt: 1, Error: fault}}}
	step := &pawlv1.Record{Seq: 4, Body: &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{Step: 7, Tool: "refund", Attempt: 2, Error: fault}}}
	good := &pawlv1.Record{Seq: 5, Body: &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{Step: 7, Tool: "refund", Ok: true}}}
	moved := &pawlv1.Record{Seq: 6, Body: &pawlv1.Record_Transition{Transition: &pawlv1.Transition{}}}
	const ofTurn, ofStep = "record 3, turn 2, attempt 1: BUSY: no room", "record 4, step 7 refund, attempt 2: BUSY: no room"
	for name, tc := range map[string]struct {
		run     *pawlv1.Run
		records []*pawlv1.Record
		want    string
	}{
		"a turn":                     {&pawlv1.Run{Seq: 9}, []*pawlv1.Record{turn}, ofTurn},
		"the newest":                 {&pawlv1.Run{Seq: 9}, []*pawlv1.Record{turn, step, good}, ofStep},
		"before the state":           {&pawlv1.Run{Seq: 9}, []*pawlv1.Record{turn, step, moved}, ""},
		"as it was":                  {&pawlv1.Run{Seq: 3}, []*pawlv1.Record{turn, step}, ofTurn},
		"failed later":               {&pawlv1.Run{Seq: 9, Status: pawlv1.RunStatus_RUN_STATUS_FAILED, Reason: "x"}, []*pawlv1.Record{step, moved}, ofStep},
		"completed":                  {&pawlv1.Run{Seq: 9, Status: pawlv1.RunStatus_RUN_STATUS_COMPLETED, Reason: "completed"}, []*pawlv1.Record{step}, ""},
		"without an error":           {&pawlv1.Run{Seq: 9}, []*pawlv1.Record{good, moved}, ""},
		"without any record of them": {&pawlv1.Run{Seq: 9}, nil, ""},
	} {
		if got := lastError(tc.run, tc.records); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
