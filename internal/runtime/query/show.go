package query

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// ShowTurn returns a turn as its executor got it when the turn was opened. turn is the seq of the
// record that opened the turn. ShowTurn returns no turn token and does not affect the executor of
// the turn.
//
// Errors: NOT_FOUND RECORD_NOT_FOUND; FAILED_PRECONDITION NO_OPEN_TURN if the record did not open a
// turn.
func (r *Service) ShowTurn(ctx context.Context, ref runtime.RunRef, turn uint64) (runtime.TurnView, error) {
	key, err := r.cfg.Engine.FindReadable(ref)
	if err != nil {
		return runtime.TurnView{}, err
	}
	s, err := r.cfg.Engine.StateOf(ctx, key, turn)
	if err != nil {
		return runtime.TurnView{}, err
	}
	if s.Turn == nil || s.Turn.Seq != turn {
		return runtime.TurnView{}, runtime.NoTurn("NO_OPEN_TURN", fmt.Sprintf("record %d opened no turn", turn), s)
	}
	prog, err := r.cfg.Programs.ProgramOf(ctx, key.Namespace, s)
	if err != nil {
		return runtime.TurnView{}, err
	}
	return r.cfg.Turns.Turn(ctx, key, prog, s)
}

// everyStatus lists all statuses of runs, in the order of the proto enum.
var everyStatus = []machine.Status{
	machine.Running, machine.Waiting, machine.Completed, machine.BudgetExhausted,
	machine.Escalated, machine.Failed, machine.Cancelled,
}

// StatusCount is the number of runs that have a status.
type StatusCount struct {
	Status machine.Status
	Runs   int
}

// CountRuns returns the number of runs in each status.
func (r *Service) CountRuns(ctx context.Context, call runtime.Call) ([]StatusCount, error) {
	ns, err := r.readableNamespace(call)
	if err != nil {
		return nil, err
	}
	var counts []StatusCount
	for _, status := range everyStatus {
		n, err := r.cfg.Store.CountRuns(ctx, ns, []machine.Status{status})
		if err != nil {
			return nil, validate.ListFailed("runs", err)
		}
		counts = append(counts, StatusCount{Status: status, Runs: n})
	}
	return counts, nil
}
