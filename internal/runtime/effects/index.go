package effects

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// Store is the part of the store that an [Index] uses.
type Store interface {
	// Effect returns the row of a business key, which all calls with the same effect have in common. It returns false if
	// no step has the key.
	Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error)
	// Head returns the newest state of a run. Error: [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
}

// Programs returns the compiled pack of a run.
type Programs interface {
	ProgramOf(ctx context.Context, ns uint32, s *machine.State) (*packcache.Program, error)
}

// Index finds out which step has a business key, which all calls with the same effect share. Safe for concurrent use.
type Index struct {
	store    Store
	history  *history.Reader
	programs Programs
}

// New returns an Index. past reads records, and programs returns the packs of runs.
func New(store Store, past *history.Reader, programs Programs) *Index {
	return &Index{store: store, history: past, programs: programs}
}

// Stamp adds a refusal to each request of an input whose business key belongs to another step. If the turn was already
// given a refusal for the same request, Stamp repeats it. Stamp reports whether it has added a refusal, so that package
// rules must decide about the input a second time. older are the business keys that earlier programs derived for the
// same calls.
func (b *Index) Stamp(ctx context.Context, ns uint32, in *machine.Input, batch *machine.Batch, older LegacyKeys) (bool, error) {
	stamped := false
	for _, key := range batch.Wanted {
		row, taken, err := b.row(ctx, ns, append([][32]byte{key}, older[key]...))
		if err != nil {
			return false, fmt.Errorf("runtime: look up a business key: %w", err)
		}
		denial, err := b.earlierRefusal(ctx, ns, batch, key)
		if err == nil && denial == nil && taken {
			denial, err = b.denial(ctx, ns, batch.State, &row)
		}
		if err != nil {
			return false, err
		}
		if denial != nil {
			deny(in, key, denial)
			stamped = true
		}
	}
	return stamped, nil
}

// LegacyKeys maps a business key to the keys that earlier programs derived for the same call, because a store may still
// contain those keys.
type LegacyKeys map[[32]byte][][32]byte

// KeyOf returns the business key of a call and notes the older key of the same call in o. If the key cannot be derived,
// KeyOf returns the refusal of the call.
func (o *LegacyKeys) KeyOf(tool string, fields []string, payload []byte) ([32]byte, *machine.Denial) {
	keys, denial := KeysOf(tool, fields, payload)
	if keys.Key != keys.Older {
		if *o == nil {
			*o = LegacyKeys{}
		}
		(*o)[keys.Key] = append((*o)[keys.Key], keys.Older)
	}
	return keys.Key, denial
}

// row returns the stored row of a business key. If several of the keys have a row, it returns that of the first one.
func (b *Index) row(ctx context.Context, ns uint32, keys [][32]byte) (row machine.Effect, taken bool, err error) {
	for _, key := range keys {
		if row, taken, err = b.store.Effect(ctx, ns, key); err != nil || taken {
			break
		}
	}
	return row, taken, err
}

// earlierRefusal returns the refusal that the open turn already got for the same effect and step key, or nil. So a repeated
// execution gets the same answer, even if the business key is free now or the first step is answered now. The earlier
// execution may have acted on the refusal, and its actions are recorded.
func (b *Index) earlierRefusal(ctx context.Context, ns uint32, batch *machine.Batch, effect [32]byte) (*machine.Denial, error) {
	for i := range batch.State.Steps {
		step := &batch.State.Steps[i]
		if step.Effect == effect && step.RequestSeq > batch.Prev {
			return b.history.EarlierRefusal(ctx, machine.RunKey{Namespace: ns, ID: batch.State.RunID}, step, batch.Prev)
		}
	}
	return nil, nil
}

// deny adds the refusal to each request that has the business key and is not refused yet. It changes a copy of the
// command.
func deny(in *machine.Input, key [32]byte, denial *machine.Denial) {
	cmd, ok := in.Command.(machine.RequestSteps)
	if !ok {
		return
	}
	cmd.Requests = slices.Clone(cmd.Requests)
	for i := range cmd.Requests {
		if r := &cmd.Requests[i]; r.Effect == key && r.Denied == nil {
			r.Denied = denial
		}
	}
	in.Command = cmd
}

// maxRepeatedAnswer bounds the result of the first step that the refusal of a second call contains, in bytes. A longer
// result is left out.
const maxRepeatedAnswer = 16 << 10

// open reports whether the records of the run `second` may contain the result of a step of the other run. This is
// allowed if both runs have the same pack, or if the pack of the other run has no sensitive values.
func (b *Index) open(ctx context.Context, ns uint32, second *machine.State, run string) (bool, error) {
	first, err := b.store.Head(ctx, ns, run)
	if err != nil || first.Digest == second.Digest {
		return err == nil, err
	}
	prog, err := b.programs.ProgramOf(ctx, ns, first)
	return err == nil && prog.Pack.XPawl().Sensitive == nil, err
}

// denial returns the refusal for a call with a business key that belongs to another step. The message names that step
// and its outcome.
func (b *Index) denial(ctx context.Context, ns uint32, second *machine.State, row *machine.Effect) (*machine.Denial, error) {
	first := machine.IdempotencyKey(row.RunID, row.Step)
	denial := &machine.Denial{Code: machine.DuplicateEffect, Message: fmt.Sprintf("step %s has this effect, and no answer that is known", first)}
	if row.AnswerSeq == 0 {
		return denial, nil
	}
	denial.Message = fmt.Sprintf("step %s had this effect", first)
	open, err := b.open(ctx, ns, second, row.RunID)
	var answer history.Recorded
	if err == nil && open {
		answer, err = b.history.Answer(ctx, machine.RunKey{Namespace: ns, ID: row.RunID}, row.Step, row.AnswerSeq)
	}
	switch {
	case machine.IsDeleted(err) || machine.IsErased(err) || errors.Is(err, machine.ErrNoRecord) || errors.Is(err, machine.ErrNoRun):
		return denial, nil
	case err != nil:
		return nil, err
	case open && len(answer.Result) <= maxRepeatedAnswer:
		denial.Message += " and answered " + string(answer.Result)
	}
	return denial, nil
}
