package a2a

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// everyKind are the kinds of records that a projector needs.
var everyKind = []machine.RecordKind{
	machine.RecTransition, machine.RecInputReceived, machine.RecTurnOpened, machine.RecTurnAssigned,
	machine.RecTurnCompleted, machine.RecTurnFailed, machine.RecTurnAbandoned, machine.RecTurnSuspended,
	machine.RecStepRequested, machine.RecStepResolved, machine.RecStepRejected, machine.RecStepCancelled,
	machine.RecArtifactsSet, machine.RecPaused, machine.RecResumed, machine.RecOrigin, machine.RecEnded,
	machine.RecTurnReady, machine.RecOutputWritten, machine.RecStepDelegated, machine.RecNoChange, machine.RecModelUpdated, machine.RecStepOutcomeUnknown, machine.RecCompensationStarted,
	machine.RecSteered, machine.RecStopped, machine.RecNoticeAdded, machine.RecStepDecided, machine.RecBudgetRaised,
}

// reading says which events a tail reads.
type reading struct {
	// follow means that the reader waits for future records. assignments means that it also reports that a worker has
	// started on the task, before a record shows it.
	follow, assignments bool
}

var (
	readNow  = reading{assignments: true}
	readLive = reading{follow: true, assignments: true}
	// readJournal reads only recorded events, so that each reader gets the same ones.
	readJournal = reading{follow: true}
)

// tail reads the events of one task when they are committed.
type tail struct {
	watch *streams.Watch
	*projector
}

// tail opens the records of a run from the first one on.
func (s *Service) tail(ctx context.Context, caller runtime.Call, state *machine.State, with reading) (*tail, error) {
	graph, err := s.graph(ctx, state)
	if err != nil {
		return nil, err
	}
	t := &tail{projector: newProjector(state, graph)}
	if t.redaction, err = s.redactionFor(ctx, caller, state, graph); err != nil {
		return nil, err
	}
	return t, t.open(ctx, s.cfg.Engine, caller, 0, with)
}

func (t *tail) open(ctx context.Context, engine Engine, caller runtime.Call, after uint64, with reading) (err error) {
	t.watch, err = engine.Watch(ctx, streams.Request{
		Call: caller, Filter: streams.Filter{RunID: t.taskID, Kinds: everyKind}, AfterSeq: after, Follow: with.follow,
		Assignments: with.assignments,
	})
	return err
}

func (t *tail) close() {
	if t.watch != nil {
		t.watch.Close()
	}
}

// next waits for the next commits and returns their events. If there is no commit for some time, it
// returns no events. [streams.ErrEnded] means that there are no further records.
func (t *tail) next(ctx context.Context) ([]event, error) {
	page, err := t.watch.Next(ctx)
	if err != nil {
		return nil, err
	}
	if page.AssignedTurn != 0 {
		return t.turnAssigned(page.AssignedTurn), nil
	}
	var events []event
	var records []machine.Record
	for i := range page.Records {
		if page.Records[i].Erased {
			erased := machine.Erased{RunID: page.Records[i].RunID}
			return nil, erased.Err()
		}
		records = append(records, page.Records[i].Record)
		// A page contains only complete commits.
		if i+1 == len(page.Records) || page.Records[i+1].Cursor.Position != page.Records[i].Cursor.Position {
			events = append(events, t.commit(page.Records[i].Semantics, records)...)
			records = nil
		}
	}
	return events, nil
}
