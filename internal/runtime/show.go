package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/request"
)

// ShowTurn renders a turn as it was when the record turn opened it. It gives no
// token and takes no turn from anybody.
//
// Errors: NOT_FOUND RECORD_NOT_FOUND, FAILED_PRECONDITION NO_OPEN_TURN for a record
// that opened none.
func (e *Engine) ShowTurn(ctx context.Context, ref RunRef, turn uint64) (TurnView, error) {
	key, err := e.FindReadable(ref)
	if err != nil {
		return TurnView{}, err
	}
	s, err := e.StateOf(ctx, key, turn)
	if err != nil {
		return TurnView{}, err
	}
	if s.Turn == nil || s.Turn.Seq != turn {
		return TurnView{}, noTurn("NO_OPEN_TURN", fmt.Sprintf("record %d opened no turn", turn), s)
	}
	prog, err := e.programs.Of(ctx, key.Namespace, s)
	if err != nil {
		return TurnView{}, err
	}
	return e.shown.Turn(ctx, key, prog, s)
}

// everyStatus in the order of the wire.
var everyStatus = []machine.Status{
	machine.Running, machine.Waiting, machine.Completed, machine.BudgetExhausted,
	machine.Escalated, machine.Failed, machine.Cancelled,
}

// StatusCount is how many runs have a status.
type StatusCount struct {
	Status machine.Status
	Runs   int
}

// CountRuns counts the runs of each status.
func (e *Engine) CountRuns(ctx context.Context, call Call) ([]StatusCount, error) {
	ns, err := e.readableNamespace(call)
	if err != nil {
		return nil, err
	}
	var counts []StatusCount
	for _, status := range everyStatus {
		n, err := e.store.CountRuns(ctx, ns, []machine.Status{status})
		if err != nil {
			return nil, request.ListFailed("runs", err)
		}
		counts = append(counts, StatusCount{Status: status, Runs: n})
	}
	return counts, nil
}
