package delivery_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// failing are rows whose reads fail, so many times.
type failing struct {
	delivery.Delegations

	with  error
	times int
	read  chan struct{}
}

func (f *failing) Outbox(context.Context, machine.OutboxKind, int) ([]machine.OutboxRow, error) {
	if f.times--; f.times >= 0 {
		return nil, f.with
	}
	select {
	case f.read <- struct{}{}:
	default:
	}
	return nil, nil
}

// subscriptions are none: no feed asks for them.
type subscriptions = delivery.Subscriptions

// TestStoreThatIsAwayIsWaitedFor: a database that does not answer when all begins ends nothing;
// any other fault does.
func TestStoreThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	damage := errors.New("damaged")
	for name, test := range map[string]struct{ with, want error }{
		"away":    {&machine.Error{Code: machine.CodeUnavailable, Reason: "DATABASE_AWAY"}, nil},
		"damaged": {damage, damage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := &failing{with: test.with, times: 3, read: make(chan struct{}, 1)}
			var none struct{ subscriptions }
			box, err := delivery.New(delivery.Config{Delegations: rows, Subscriptions: none, Pause: time.Millisecond, MaxPause: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- box.Run(ctx) }()
			if test.want == nil {
				<-rows.read
				cancel()
			}
			if err := <-ended; !errors.Is(err, test.want) {
				t.Errorf("%v instead of %v", err, test.want)
			}
		})
	}
}

// halfRead has one delegation that is due in an hour, and cancellations that cannot be read.
type halfRead struct {
	delivery.Delegations
}

func (halfRead) Outbox(_ context.Context, kind machine.OutboxKind, _ int) ([]machine.OutboxRow, error) {
	if kind == machine.OutboxCancel {
		return nil, errors.New("damaged")
	}
	return []machine.OutboxRow{{Kind: kind, RunID: "R", Step: 1, Due: time.Now().Add(time.Hour).UnixNano()}}, nil
}

// TestRunEndsWithItsGoroutines: the outbox begins to send a row, and then cannot read the others. When Run returns its
// error, it sends nothing more.
func TestRunEndsWithItsGoroutines(t *testing.T) {
	t.Parallel()
	var none struct{ subscriptions }
	var directory struct{ delivery.Directory }
	box, err := delivery.New(delivery.Config{Delegations: halfRead{}, Subscriptions: none, Directory: directory})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Run(t.Context()); err == nil {
		t.Error("no error")
	}
	if n := box.Sending(); n != 0 {
		t.Errorf("%d rows are still sent", n)
	}
}
