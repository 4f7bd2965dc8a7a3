package runtime

import (
	"context"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// replayPage bounds what a replay holds of the journal at once.
var replayPage = machine.Page{Records: 256, Bytes: 1 << 20}

// replay returns a run's state after the entry that holds record seq, by feeding
// the inputs recorded since the last checkpoint through the machine; nil for
// seq 0. Nothing is executed.
func (e *Engine) Replay(ctx context.Context, key RunKey, g *machine.Graph, seq uint64) (*machine.State, error) {
	if seq == 0 {
		return nil, nil
	}
	s, err := e.store.Checkpoint(ctx, key.Namespace, key.ID, seq)
	if err != nil {
		return nil, fmt.Errorf("runtime: read run %s before record %d: %w", key.ID, seq, err)
	}
	for s == nil || s.Seq < seq {
		from := uint64(1)
		if s != nil {
			from = s.Seq + 1
		}
		entries, err := e.store.Entries(ctx, key.Namespace, key.ID, from, replayPage)
		if err != nil {
			return nil, fmt.Errorf("runtime: read run %s from record %d: %w", key.ID, from, err)
		}
		if len(entries) == 0 {
			return nil, recordNotFound(seq)
		}
		for i := range entries {
			if entries[i].First > seq {
				break
			}
			result, err := ReplayEntry(g, s, &entries[i])
			if err != nil {
				return nil, fmt.Errorf("runtime: replay run %s: %w", key.ID, err)
			}
			s = result.State
		}
	}
	return s, nil
}

// replayTail goes on from a stored state of a run, by the run's own program.
func (e *Engine) replayTail(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error) {
	prog, err := e.programs.Of(ctx, head.Namespace, head)
	if err != nil {
		return nil, err
	}
	s := head
	for i := range tail {
		result, err := ReplayEntry(prog.Graph, s, &tail[i])
		if err != nil {
			return nil, fmt.Errorf("runtime: replay run %s: %w", head.RunID, err)
		}
		s = result.State
	}
	return s, nil
}

// ReplayEntry makes one recorded input again; the state has the entry's hash.
func ReplayEntry(g *machine.Graph, s *machine.State, entry *machine.Entry) (machine.Result, error) {
	result, err := rules.Step(g, s, entry.Input)
	if err != nil {
		return result, fmt.Errorf("record %d: %w", entry.First, err)
	}
	if result.Batch == nil {
		return result, fmt.Errorf("record %d: its input changes nothing", entry.First)
	}
	next := *result.State
	next.PrevHash = entry.Hash
	result.State = &next
	return result, nil
}

// StateAt returns a run's state as it was after the commit that holds record
// seq; 0 = now. A past state is a replay from the store's last checkpoint before
// it, so it costs the same however long the journal is.
func (e *Engine) StateAt(ctx context.Context, ref RunRef, seq uint64) (*machine.State, error) {
	key, err := e.FindReadable(ref)
	if err != nil {
		return nil, err
	}
	return e.stateAt(ctx, key, seq)
}

func (e *Engine) stateAt(ctx context.Context, key RunKey, seq uint64) (*machine.State, error) {
	head, err := e.Head(ctx, key)
	if err != nil {
		return nil, err
	}
	switch {
	case seq == 0 || seq == head.Seq:
		return head, nil
	case seq > head.Seq:
		return nil, recordNotFound(seq)
	}
	prog, err := e.programs.Of(ctx, key.Namespace, head)
	if err != nil {
		return nil, err
	}
	past, err := e.Replay(ctx, key, prog.Graph, seq)
	if err != nil || !head.Imported {
		return past, err
	}
	shown := *past
	shown.Imported = true
	return &shown, nil
}

func recordNotFound(seq uint64) error {
	return &machine.Refusal{
		Code: machine.CodeNotFound, Reason: "RECORD_NOT_FOUND", Field: "at_seq",
		Message: fmt.Sprintf("the run has no record %d", seq), Got: figure(seq),
	}
}

// figure is a seq or position as a refusal's figure, which is signed.
func figure(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
