package history

import (
	"context"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Page bounds how much of the journal a replay reads into memory at once.
var Page = machine.Page{Records: 256, Bytes: 1 << 20}

// Replay returns the state of a run after the entry that contains the record seq. For seq 0 it returns nil. It starts
// at the last checkpoint and applies the recorded inputs to the machine. It executes no tools or models.
func (r *Reader) Replay(ctx context.Context, key machine.RunKey, g *machine.Graph, seq uint64) (*machine.State, error) {
	if seq == 0 {
		return nil, nil
	}
	s, err := r.store.Checkpoint(ctx, key.Namespace, key.ID, seq)
	if err == nil {
		err = s.CheckNotErased()
	}
	if err != nil {
		return nil, fmt.Errorf("runtime: read run %s before record %d: %w", key.ID, seq, err)
	}
	for s == nil || s.Seq < seq {
		from := uint64(1)
		if s != nil {
			from = s.Seq + 1
		}
		entries, err := r.store.Entries(ctx, key.Namespace, key.ID, from, Page)
		if err != nil {
			return nil, fmt.Errorf("runtime: read run %s from record %d: %w", key.ID, from, err)
		}
		if len(entries) == 0 {
			return nil, NoRecord(seq)
		}
		for i := range entries {
			if entries[i].First > seq {
				break
			}
			if err := entries[i].CheckNotErased(); err != nil {
				return nil, err
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

// ApplyEntries applies entries to a state of a run and returns the new state. It verifies that each entry follows the
// previous one, and that each input produces the records of its entry.
func ApplyEntries(g *machine.Graph, s *machine.State, tail []machine.Entry) (*machine.State, error) {
	for i := range tail {
		if e := &tail[i]; e.PrevHash != s.PrevHash {
			return nil, fmt.Errorf("record %d: its entry does not follow the one before", e.First)
		}
		next, err := rules.ReplayFrom(g, s, tail[i:i+1])
		if err != nil {
			return nil, err
		}
		s = next
	}
	return s, nil
}

// ReplayEntry applies one recorded input to the state before it. The hash of the entry becomes the hash in the
// resulting state.
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

// Result computes the result of a committed entry, as it was when the entry was committed. head is the newest state of
// the run. No replay is needed if entry is the newest commit and its answer needs only the state and the records (see
// plainAnswer).
func (r *Reader) Result(ctx context.Context, head *machine.State, g *machine.Graph, entry *machine.Entry) (machine.Result, error) {
	last := entry.Records[len(entry.Records)-1].Seq
	if head.Seq == last && plainAnswer(entry.Input.Command) {
		return machine.Result{State: head, Disposition: machine.Accepted}, nil
	}
	before, err := r.Replay(ctx, machine.RunKey{Namespace: head.Namespace, ID: head.RunID}, g, entry.First-1)
	if err != nil {
		return machine.Result{}, err
	}
	result, err := ReplayEntry(g, before, entry)
	if err != nil {
		return machine.Result{}, fmt.Errorf("runtime: replay run %s: %w", head.RunID, err)
	}
	return result, nil
}

// plainAnswer reports whether the answer to a command needs only the state and the records, and no other part of the
// result.
func plainAnswer(c machine.Command) bool {
	switch machine.KindOf(c) {
	case machine.CmdRequestSteps, machine.CmdResolveStep, machine.CmdFailTurn,
		machine.CmdRequestModel, machine.CmdAnswerModel, machine.CmdUpdateModelCall:
		return false
	}
	return true
}

// StateAt returns the state of a run after the commit that contains the record seq. head is the newest state of the
// run. If the run has none, the error is RECORD_NOT_FOUND.
func (r *Reader) StateAt(ctx context.Context, key machine.RunKey, head *machine.State, g *machine.Graph, seq uint64) (*machine.State, error) {
	if seq > head.Seq {
		return nil, NoRecord(seq)
	}
	past, err := r.Replay(ctx, key, g, seq)
	if err != nil || !head.Imported {
		return past, err
	}
	shown := *past
	shown.Imported = true
	return &shown, nil
}

// NoRecord returns the error for a record that a run does not have.
func NoRecord(seq uint64) error {
	return &machine.Error{
		Code: machine.CodeNotFound, Reason: "RECORD_NOT_FOUND", Field: "at_seq",
		Message: fmt.Sprintf("the run has no record %d", seq), Got: int64(min(seq, math.MaxInt64)),
	}
}
