package retain

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Way is what the room needs of the way of a transition.
type Way interface {
	// Find resolves the address of a run that the caller may see.
	Find(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns a run's newest state; RUN_NOT_FOUND, RUN_DELETED.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// Forget calls do in the run's own turn, after which nothing of the run is remembered.
	Forget(key runtime.RunKey, do func() error) error
	// Inside calls do while inputs are taken, which a drain waits for.
	Inside(do func() error) error
}

// Store is what deletes.
type Store interface {
	// DeleteRun deletes a run that has ended, synced; the same run again is a duplicate.
	// [machine.ErrNoRun], a *machine.Refusal RUN_NOT_ENDED.
	DeleteRun(ctx context.Context, ns uint32, run string, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error)
}

// Config is everything that a [Room] needs.
type Config struct {
	Way   Way
	Clock runtime.Clock
	// Store deletes; nil: nothing is deleted here (DELETION_OFF).
	Store Store
	// Deleted is told of each run that was deleted, also of one that was before, in the
	// run's own turn; nil: nobody is.
	Deleted func(key runtime.RunKey)
}

// Room deletes runs. Its owner is the wiring. Safe for concurrent use.
type Room struct{ cfg Config }

// New checks the configuration; it starts nothing.
func New(cfg Config) (*Room, error) {
	if cfg.Way == nil || cfg.Clock == nil {
		return nil, errors.New("retain: configuration: Way and Clock are required")
	}
	return &Room{cfg: cfg}, nil
}
