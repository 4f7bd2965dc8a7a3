package export

import (
	"context"
	"fmt"
	"slices"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// RecordsAfter lists a run's records after a seq, page by page.
func RecordsAfter(ctx context.Context, runs pawlv1.RunServiceClient, ns, run string, after uint64, kinds []pawlv1.RecordKind) ([]*pawlv1.Record, error) {
	var all []*pawlv1.Record
	req := &pawlv1.ListTransitionsRequest{Namespace: ns, RunId: run, AfterSeq: after, Kinds: kinds, PageSize: 1000}
	for {
		page, err := runs.ListTransitions(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetRecords()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// NewestWindow is how many of the newest records of a run are enough for its end, its last output and its last error.
const NewestWindow = 1000

// NewestRecords reads transitions, ends of turns, answers of steps and the end among the newest records of a run, of which it reads window. If
// the run is shown as it was before, they end there.
func NewestRecords(ctx context.Context, runs pawlv1.RunServiceClient, r *pawlv1.Run, window uint64) ([]*pawlv1.Record, error) {
	newest, err := RecordsAfter(ctx, runs, r.GetNamespace(), r.GetRunId(), r.GetSeq()-min(r.GetSeq(), window), []pawlv1.RecordKind{
		pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED,
		pawlv1.RecordKind_RECORD_KIND_TURN_FAILED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_ENDED,
	})
	return slices.DeleteFunc(newest, func(record *pawlv1.Record) bool { return record.GetSeq() > r.GetSeq() }), err
}

// LastOutput returns the output of the last completed turn that had one.
func LastOutput(records []*pawlv1.Record) []*pawlv1.Part {
	for _, record := range slices.Backward(records) {
		if parts := record.GetTurnCompleted().GetOutput(); len(parts) > 0 {
			return parts
		}
	}
	return nil
}

// LastError describes the newest error of a turn or a step since the run entered its state, or, if the run has failed, of the whole run.
// It returns "" if there is none, and for other runs that have ended.
func LastError(r *pawlv1.Run, records []*pawlv1.Record) (text string) {
	failed := r.GetStatus() == pawlv1.RunStatus_RUN_STATUS_FAILED || r.GetStatus() == pawlv1.RunStatus_RUN_STATUS_ESCALATED
	if r.GetReason() != "" && !failed {
		return ""
	}
	for _, record := range records {
		turn, step := record.GetTurnFailed(), record.GetStepResolved()
		switch {
		case turn.GetError() != nil:
			text = fmt.Sprintf("record %d, turn %d, attempt %d: %s", record.GetSeq(), turn.GetTurnSeq(), turn.GetAttempt(), faultText(turn.GetError()))
		case step.GetError() != nil:
			text = fmt.Sprintf("record %d, step %d %s, attempt %d: %s", record.GetSeq(), step.GetStep(), step.GetTool(), step.GetAttempt(), faultText(step.GetError()))
		case record.GetTransition() != nil && !failed:
			text = ""
		}
	}
	return text
}

func faultText(f *pawlv1.Fault) string {
	return f.GetCode() + ": " + f.GetMessage()
}
