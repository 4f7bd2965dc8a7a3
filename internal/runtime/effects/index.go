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
	// Effect returns the row of a business key; false = no step has it.
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

// New makes an index of a store, with the reader of past records and the packs.
func New(store Store, past *history.Reader, programs Programs) *Index {
	return &Index{store: store, past: past, programs: programs}
}

// Stamp refuses the requests of an input that would take a business key of another step. It also repeats
// refusals that the same request of the turn got before. It reports whether there are any; then the machine
// must decide about the input again. older are the keys of the same calls as earlier programs derived them.
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

// Older maps business keys to the keys that earlier programs derived for the same calls; a store may still
// have them.
type Older map[[32]byte][][32]byte

// KeyOf returns the current business key of a call, or the reason why it has none. It also records the older
// key.
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

// row returns the row of the first of the keys that has one.
func (b *Index) row(ctx context.Context, ns uint32, keys [][32]byte) (row machine.Effect, taken bool, err error) {
	for _, key := range keys {
		if row, taken, err = b.store.Effect(ctx, ns, key); err != nil || taken {
			break
		}
	}
	return row, taken, err
}

// before returns the refusal that the open turn got when it requested the effect before, under the same step
// key. A repeated execution gets the same answer, even if the business key is free by now or the first step
// was answered. The earlier execution may have acted on the refusal, and those actions are recorded.
func (b *Index) before(ctx context.Context, ns uint32, batch *machine.Batch, effect [32]byte) (*machine.Denial, error) {
	for i := range batch.State.Steps {
		step := &batch.State.Steps[i]
		if step.Effect == effect && step.RequestSeq > batch.Prev {
			return b.past.Refused(ctx, machine.RunKey{Namespace: ns, ID: batch.State.RunID}, step, batch.Prev)
		}
	}
	return nil, nil
}

// deny stamps the refusal into all requests with the key that have no other refusal. The caller's own command
// is not changed.
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

// maxRepeatedAnswer bounds the part of the first step's answer that a refusal repeats, in bytes.
const maxRepeatedAnswer = 16 << 10

// open reports whether the outcome of the first run's step may be shown in the records of the second run:
// both have the same pack, or the first pack has no sensitive values.
func (b *Index) open(ctx context.Context, ns uint32, second *machine.State, run string) (bool, error) {
	first, err := b.store.Head(ctx, ns, run)
	if err != nil || first.Digest == second.Digest {
		return err == nil, err
	}
	prog, err := b.programs.Of(ctx, ns, first)
	return err == nil && prog.Pack.XPawl().Sensitive == nil, err
}

// denial returns the refusal with the step that has the key, and its outcome.
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
