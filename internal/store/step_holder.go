package store

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// HoldStep stores which worker an attempt of a step was assigned to (its holder), and waits until this
// is synced. The holder is stored in the outbox row of the step, which is removed with the attempt, so
// the holder does not have to be cleared. If the row does not exist, the error is [machine.ErrNoStep].
// Other errors are those of a commit.
func (s *Store) HoldStep(ctx context.Context, row machine.OutboxRow, holder machine.StepHolder) error {
	return s.write(ctx, holdWrites(row, holder))
}

func holdWrites(row machine.OutboxRow, holder machine.StepHolder) *Writes {
	key := layout.OutboxKey(nil, row.Namespace, &row)
	return &Writes{
		ns: row.Namespace, entry: -1,
		ops:     []layout.Op{{Key: key, Value: codec.EncodeHolder(holder)}},
		expects: []expect{{key: key, predicate: anyValue, err: machine.ErrNoStep}},
	}
}

// DropOutbox removes an outbox row whose work is done, and waits until the removal is synced. If the
// row no longer exists, this is no error.
func (s *Store) DropOutbox(ctx context.Context, row machine.OutboxRow) error {
	return s.write(ctx, &Writes{
		ns: row.Namespace, entry: -1, ops: []layout.Op{{Key: layout.OutboxKey(nil, row.Namespace, &row), Delete: true}},
	})
}

// StepHolder returns the worker that [Store.HoldStep] last stored for a step. If the outbox row does
// not exist, the error is [machine.ErrNoStep].
func (s *Store) StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error) {
	var holder machine.StepHolder
	err := s.view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, layout.OutboxKey(nil, row.Namespace, &row))
		if err == nil && value == nil {
			err = machine.ErrNoStep
		}
		if err != nil {
			return err
		}
		holder, err = codec.DecodeHolder(value)
		return err
	})
	if err != nil {
		return holder, fmt.Errorf("step %d of run %q: %w", row.Step, row.RunID, err)
	}
	return holder, ctx.Err()
}
