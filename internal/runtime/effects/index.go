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

// Store keeps the rows of business keys.
type Store interface {
	// Effect returns the row of a business key. It returns false if no step has the key.
	Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error)
	// Head returns the newest state of a run. Error: [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
}

// Programs finds the pack of a run.
type Programs interface {
	Of(ctx context.Context, ns uint32, s *machine.State) (*packcache.Program, error)
}

// Index finds the step that has a business key. Safe for concurrent use.
type Index struct {
	store    Store
	past     *history.Reader
	programs Programs
}

// New returns an Index. past reads records, and programs finds the packs of runs.
func New(store Store, past *history.Reader, programs Programs) *Index {
	return &Index{store: store, past: past, programs: programs}
}

// Stamp stamps a refusal into each request of an input whose business key belongs to another step. If
// the same request of the turn was refused before, Stamp repeats that refusal. Stamp reports whether it
// stamped any refusal. If it did, the machine must decide about the input again. older are the business
// keys that earlier programs derived for the same calls.
func (b *Index) Stamp(ctx context.Context, ns uint32, in *machine.Input, batch *machine.Batch, older Older) (bool, error) {
	stamped := false
	for _, key := range batch.Wanted {
		row, taken, err := b.row(ctx, ns, append([][32]byte{key}, older[key]...))
		if err != nil {
			return false, fmt.Errorf("runtime: look up a business key: %w", err)
		}
		denial, err := b.before(ctx, ns, batch, key)
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

// Older maps a business key to the keys that earlier programs derived for the same call. A store may still contain these keys.
type Older map[[32]byte][][32]byte

// KeyOf returns the current business key of a call and records the older key of the call in o. If the
// call has no key, KeyOf returns the reason.
func (o *Older) KeyOf(tool string, fields []string, payload []byte) ([32]byte, *machine.Denial) {
	keys, denial := KeysOf(tool, fields, payload)
	if keys.Key != keys.Older {
		if *o == nil {
			*o = Older{}
		}
		(*o)[keys.Key] = append((*o)[keys.Key], keys.Older)
	}
	return keys.Key, denial
}

// row returns the row of the first key that has a row.
func (b *Index) row(ctx context.Context, ns uint32, keys [][32]byte) (row machine.Effect, taken bool, err error) {
	for _, key := range keys {
		if row, taken, err = b.store.Effect(ctx, ns, key); err != nil || taken {
			break
		}
	}
	return row, taken, err
}

// before returns the refusal that the open turn received earlier for the same effect and step key. So a
// repeated execution receives the same answer, even if the business key is free now or the first step
// is answered now. This is necessary because the earlier execution may have acted on the refusal, and
// its actions are recorded.
func (b *Index) before(ctx context.Context, ns uint32, batch *machine.Batch, effect [32]byte) (*machine.Denial, error) {
	for i := range batch.State.Steps {
		step := &batch.State.Steps[i]
		if step.Effect == effect && step.RequestSeq > batch.Prev {
			return b.past.Refused(ctx, machine.RunKey{Namespace: ns, ID: batch.State.RunID}, step, batch.Prev)
		}
	}
	return nil, nil
}

// deny stamps the refusal into each request that has the key and is not refused yet. It works on a copy
// of the command, so the caller's command does not change.
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

// maxRepeatedAnswer bounds the part of the first step's answer that a refusal contains, in bytes.
const maxRepeatedAnswer = 16 << 10

// open reports whether the records of the second run may contain the outcome of the first run's step.
// This is allowed if both runs have the same pack, or if the first pack has no sensitive values.
func (b *Index) open(ctx context.Context, ns uint32, second *machine.State, run string) (bool, error) {
	first, err := b.store.Head(ctx, ns, run)
	if err != nil || first.Digest == second.Digest {
		return err == nil, err
	}
	prog, err := b.programs.Of(ctx, ns, first)
	return err == nil && prog.Pack.XPawl().Sensitive == nil, err
}

// denial returns the refusal for a call whose key another step has. The refusal names that step and its outcome.
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
		answer, err = b.past.Answer(ctx, machine.RunKey{Namespace: ns, ID: row.RunID}, row.Step, row.AnswerSeq)
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
