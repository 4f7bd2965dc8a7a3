package export

import (
	"cmp"
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
func LastError(r *pawlv1.Run, records []*pawlv1.Record) string {
	record := lastFailure(r, records)
	turn, step := record.GetTurnFailed(), record.GetStepResolved()
	switch {
	case turn != nil:
		return fmt.Sprintf("record %d, turn %d, attempt %d: %s", record.GetSeq(), turn.GetTurnSeq(), turn.GetAttempt(), faultText(turn.GetError()))
	case step != nil:
		return fmt.Sprintf("record %d, step %d %s, attempt %d: %s", record.GetSeq(), step.GetStep(), step.GetTool(), step.GetAttempt(), faultText(step.GetError()))
	}
	return ""
}

// lastFailure returns the record of the error that LastError describes, or nil.
func lastFailure(r *pawlv1.Run, records []*pawlv1.Record) (last *pawlv1.Record) {
	failed := EndedBadly(r)
	if r.GetReason() != "" && !failed {
		return nil
	}
	for _, record := range records {
		switch {
		case record.GetTurnFailed().GetError() != nil, record.GetStepResolved().GetError() != nil:
			last = record
		case record.GetTransition() != nil && !failed:
			last = nil
		}
	}
	return last
}

// EndedBadly reports whether a run has the status FAILED or ESCALATED.
func EndedBadly(r *pawlv1.Run) bool {
	return r.GetStatus() == pawlv1.RunStatus_RUN_STATUS_FAILED || r.GetStatus() == pawlv1.RunStatus_RUN_STATUS_ESCALATED
}

// endWindow is how many of the newest records of a run are read for the error with which it ended.
const endWindow = 100

// EndError describes in short the last error of a turn or a step of a run that [EndedBadly]. It reads the newest 100 records of the run. It
// returns "" if these have no error, and for all other runs, of which it reads no record.
func EndError(ctx context.Context, runs pawlv1.RunServiceClient, r *pawlv1.Run) (string, error) {
	if !EndedBadly(r) {
		return "", nil
	}
	records, err := RecordsAfter(ctx, runs, r.GetNamespace(), r.GetRunId(), r.GetSeq()-min(r.GetSeq(), endWindow), []pawlv1.RecordKind{
		pawlv1.RecordKind_RECORD_KIND_TURN_FAILED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED,
	})
	if err != nil {
		return "", err
	}
	record := lastFailure(r, records)
	if fault := cmp.Or(record.GetTurnFailed().GetError(), record.GetStepResolved().GetError()); fault != nil {
		return faultText(fault), nil
	}
	return "", nil
}

func faultText(f *pawlv1.Fault) string {
	return f.GetCode() + ": " + f.GetMessage()
}
