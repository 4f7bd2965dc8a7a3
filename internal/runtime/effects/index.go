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
	// Effect returns the row of a business key; false: nobody has it.
	Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error)
	// Head is the newest state of a run; [machine.ErrNoRun].
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
}

// Programs finds the pack of a run.
type Programs interface {
	Of(ctx context.Context, ns uint32, s *machine.State) (*packcache.Program, error)
}

// Index says who has which business key. Safe for concurrent use.
type Index struct {
	store    Store
	past     *history.Reader
	programs Programs
}

// New makes a book of a store, of what was, and of packs.
func New(store Store, past *history.Reader, programs Programs) *Index {
	return &Index{store: store, past: past, programs: programs}
}

// Stamp refuses the requests of an input that would take a business key which another step
// has, or had when their turn asked for the same before, and says whether there are any: then
// the input is to be decided over again. older are the keys that earlier programs gave the
// same calls.
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

// Older are, for business keys, the keys that earlier programs gave the same calls; a store
// may still have them.
type Older map[[32]byte][][32]byte

// KeyOf is the business key that a call has today, or why it has none; an older one is noted.
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

// row is that of the first of some keys that has one.
func (b *Index) row(ctx context.Context, ns uint32, keys [][32]byte) (row machine.Effect, taken bool, err error) {
	for _, key := range keys {
		if row, taken, err = b.store.Effect(ctx, ns, key); err != nil || taken {
			break
		}
	}
	return row, taken, err
}

// before is what the open turn was told when it asked for an effect before, under the same key
// of a step: a repeated execution is told the same, though the business key is free by now, or
// the first step answered. It may have done something else instead, and that is recorded.
func (b *Index) before(ctx context.Context, ns uint32, batch *machine.Batch, effect [32]byte) (*machine.Denial, error) {
	for i := range batch.State.Steps {
		step := &batch.State.Steps[i]
		if step.Effect == effect && step.RequestSeq > batch.Prev {
			return b.past.Refused(ctx, machine.RunKey{Namespace: ns, ID: batch.State.RunID}, step, batch.Prev)
		}
	}
	return nil, nil
}

// deny stamps the refusal of all requests with a key that are not refused for something else;
// the caller's own command stays.
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

// maxRepeatedAnswer bounds what a refusal repeats of the first step's answer, in bytes.
const maxRepeatedAnswer = 16 << 10

// open: what came of the first run's step may be told in the records of the second, since
// both are under the same rules, or the first under none.
func (b *Index) open(ctx context.Context, ns uint32, second *machine.State, run string) (bool, error) {
	first, err := b.store.Head(ctx, ns, run)
	if err != nil || first.Digest == second.Digest {
		return err == nil, err
	}
	prog, err := b.programs.Of(ctx, ns, first)
	return err == nil && prog.Pack.XPawl().Sensitive == nil, err
}

// denial tells who has the key, and what came of it.
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
