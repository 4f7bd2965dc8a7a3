package store

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// ScheduleStore stores the progress of each schedule. Safe for concurrent use.
type ScheduleStore struct {
	// View reads the last synced commit of the store. Write commits rows and waits until they are
	// synced.
	View  func(read func(txn *layout.Txn) error) error
	Write func(ctx context.Context, ns uint32, ops []layout.Op) error
}

// Marks returns the stored progress of all schedules in all namespaces.
func (a *ScheduleStore) Marks(ctx context.Context) (marks []machine.ScheduleMark, err error) {
	err = layout.EachRow(ctx, a.View, []byte{layout.KindSchedule}, func(key, value []byte) error {
		m, err := codec.DecodeSchedule(value)
		if err == nil {
			m.Namespace, m.ID, err = layout.ReadScheduleKey(key)
		}
		marks = append(marks, m)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	return marks, nil
}

// Put stores the progress of a schedule and waits until it is synced.
func (a *ScheduleStore) Put(ctx context.Context, m machine.ScheduleMark) error {
	return a.set(ctx, &m, layout.Op{Value: codec.EncodeSchedule(&m)})
}

// Drop removes the progress of a schedule and waits until the removal is synced. If there is none, this
// is no error.
func (a *ScheduleStore) Drop(ctx context.Context, m machine.ScheduleMark) error {
	return a.set(ctx, &m, layout.Op{Delete: true})
}

func (a *ScheduleStore) set(ctx context.Context, m *machine.ScheduleMark, op layout.Op) error {
	op.Key = layout.ScheduleKey(m.Namespace, m.ID)
	if err := a.Write(ctx, m.Namespace, []layout.Op{op}); err != nil {
		return fmt.Errorf("schedule %q: %w", m.ID, err)
	}
	return nil
}
