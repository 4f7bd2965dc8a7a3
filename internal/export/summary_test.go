package export_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
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
		"failed later":               {&pawlv1.Run{Seq: 9, Status: pawlv1.RunStatus_RUN_STATUS_FAILED, Reason: "x"}, []*pawlv1.Record{step, moved}, ofStep},
		"completed":                  {&pawlv1.Run{Seq: 9, Status: pawlv1.RunStatus_RUN_STATUS_COMPLETED, Reason: "completed"}, []*pawlv1.Record{step}, ""},
		"without an error":           {&pawlv1.Run{Seq: 9}, []*pawlv1.Record{good, moved}, ""},
		"without any record of them": {&pawlv1.Run{Seq: 9}, nil, ""},
	} {
		if got := export.LastError(tc.run, tc.records); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestLastOutput(t *testing.T) {
	t.Parallel()
	said := func(parts ...*pawlv1.Part) *pawlv1.Record {
		return &pawlv1.Record{Body: &pawlv1.Record_TurnCompleted{TurnCompleted: &pawlv1.TurnCompleted{Output: parts}}}
	}
	text := &pawlv1.Part{Content: &pawlv1.Part_Text{Text: "Paid."}}
	value := &pawlv1.Part{Content: &pawlv1.Part_Json{Json: `{"n":1}`}}
	data := &pawlv1.Part{Content: &pawlv1.Part_Data{Data: []byte{1}}, MediaType: "image/png"}
	records := []*pawlv1.Record{said(value), said(text, value, data), said(), {Body: &pawlv1.Record_Transition{Transition: &pawlv1.Transition{}}}}
	if got, want := export.Text(export.LastOutput(records)), "Paid.\n{\"n\":1}\n(1 bytes of image/png)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := export.LastOutput(records[2:]); got != nil {
		t.Errorf("an output of no turn: %v", got)
	}
}

// newest answers ListTransitions with records, and keeps the request.
type newest struct {
	pawlv1.RunServiceClient
	records []*pawlv1.Record
	req     *pawlv1.ListTransitionsRequest
}

func (n *newest) ListTransitions(_ context.Context, req *pawlv1.ListTransitionsRequest, _ ...grpc.CallOption) (*pawlv1.ListTransitionsResponse, error) {
	n.req = req
	return &pawlv1.ListTransitionsResponse{Records: n.records}, nil
}

// TestEndError: only the newest records of a run that failed are read.
func TestEndError(t *testing.T) {
	t.Parallel()
	step := &pawlv1.Record{Seq: 450, Body: &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{Step: 7, Tool: "refund", Attempt: 2, Error: &pawlv1.Fault{Code: "BUSY", Message: "no room"}}}}
	for _, tc := range []struct {
		status  pawlv1.RunStatus
		records []*pawlv1.Record
		want    string
		reads   bool
	}{
		{pawlv1.RunStatus_RUN_STATUS_FAILED, []*pawlv1.Record{step}, "BUSY: no room", true},
		{pawlv1.RunStatus_RUN_STATUS_ESCALATED, nil, "", true},
		{pawlv1.RunStatus_RUN_STATUS_COMPLETED, []*pawlv1.Record{step}, "", false},
		{pawlv1.RunStatus_RUN_STATUS_RUNNING, []*pawlv1.Record{step}, "", false},
	} {
		runs := &newest{records: tc.records}
		got, err := export.EndError(t.Context(), runs, &pawlv1.Run{RunId: "R", Seq: 500, Status: tc.status, Reason: "x"})
		if err != nil || got != tc.want {
			t.Errorf("%v: %q, %v, want %q", tc.status, got, err, tc.want)
		}
		if (runs.req != nil) != tc.reads || tc.reads && runs.req.GetAfterSeq() != 400 {
			t.Errorf("%v: reads %v", tc.status, runs.req)
		}
	}
}
