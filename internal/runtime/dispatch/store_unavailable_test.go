package dispatch_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/testkit"
)

// shaky is a store whose next reads fail, as those of a database that is unavailable do; away is
// how many reads still fail.
type shaky struct {
	*testkit.Store

	away atomic.Int64
}

func (s *shaky) fails() error {
	if s.away.Add(-1) < 0 {
		return nil
	}
	return &machine.Error{Code: machine.CodeUnavailable, Reason: "DATABASE_AWAY"}
}

// Entry implements [runtime.Store].
func (s *shaky) Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error) {
	if err := s.fails(); err != nil {
		return machine.Entry{}, err
	}
	return s.Store.Entry(ctx, ns, run, seq)
}

// StepHolder implements [runtime.Store].
func (s *shaky) StepHolder(ctx context.Context, row machine.OutboxRow) (machine.StepHolder, error) {
	if err := s.fails(); err != nil {
		return machine.StepHolder{}, err
	}
	return s.Store.StepHolder(ctx, row)
}

func newShakyRig(t *testing.T) (*rig, *shaky) {
	t.Helper()
	var store *shaky
	r := newRig(t, func(c *runtime.Config) {
		store = &shaky{Store: c.Store.(*testkit.Store)}
		c.Store = store
	})
	r.background()
	return r, store
}

// TestAnswerThatCannotBeReadIsToldLater: a step is answered while the store cannot be read. The
// worker that holds the turn receives the answer later, when the store is available again.
func TestAnswerThatCannotBeReadIsToldLater(t *testing.T) {
	t.Parallel()
	r, store := newShakyRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	d, step := r.pendingStep(model, tools)
	store.away.Store(1)
	if answer, err := tools.resolve(step, `{"ok":true}`); err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("resolve: %v %v", answer.Disposition, err)
	}
	if got := later(r, "answer", model.answers); len(got) != 1 || string(got[0].Result) != `{"ok":true}` {
		t.Fatalf("told %+v", got)
	}
	model.mustComplete(d, "Again")
}

// TestWorkerComesAgainWhileTheStoreIsAway: while the store is unavailable, the steps of a worker
// that reconnects cannot be compared with the stored ones. The connection is refused, and the
// worker keeps its step when it connects after that.
func TestWorkerComesAgainWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	r, store := newShakyRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	_, step := r.pendingStep(model, tools)
	tools.Close(true)
	// The background loops of the rig read, too. So every read fails until the store is available again.
	store.away.Store(math.MaxInt32)
	back := func(req *dispatch.WorkerRequest) { toolsOnly(req); req.Steps = []dispatch.StepLease{step.StepLease} }
	req := dispatch.WorkerRequest{
		Call: runtime.Call{Principal: hands}, ID: "tools", Sink: tools, Offer: machine.WorkOffer{Tools: []string{"*"}, Steps: 4},
		Steps: []dispatch.StepLease{step.StepLease},
	}
	_, err := r.Work.Connect(context.Background(), req)
	if refusal, ok := errors.AsType[*machine.Error](err); !ok || refusal.Code != machine.CodeUnavailable {
		t.Fatalf("%v", err)
	}
	store.away.Store(0)
	if again := r.connect("tools", back); len(again.conn.Steps) != 1 {
		t.Error("the step was not kept")
	}
}
