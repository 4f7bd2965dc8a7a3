package streams

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// WaitRequest is the argument of [Service.WaitRun].
type WaitRequest struct {
	runtime.RunRef
	// AfterSeq makes WaitRun wait until the run has a record after this one. If it is 0, WaitRun
	// waits until the run is WAITING or has ended.
	AfterSeq uint64
	// Most is the longest time to wait. 0 means that only ctx bounds the wait.
	Most time.Duration
}

// WaitRun waits until a run is WAITING or has ended. With AfterSeq it waits until the run has a newer
// record or has ended. settled is false if WaitRun returned earlier, because the time Most has passed
// or the server stops.
func (r *Service) WaitRun(ctx context.Context, req WaitRequest) (state *machine.State, settled bool, err error) {
	key, err := r.cfg.Engine.FindReadable(req.RunRef)
	if err != nil {
		return nil, false, err
	}
	sub := r.hub.subscribe(key)
	defer r.hub.unsubscribe(sub)
	var late <-chan time.Time
	if req.Most > 0 {
		late = r.cfg.Clock.After(req.Most)
	}
	for {
		s, err := r.cfg.Engine.Head(ctx, key)
		if err != nil {
			return nil, false, err
		}
		if s.Status.Terminal() || s.Seq > req.AfterSeq && (req.AfterSeq > 0 || s.Status == machine.Waiting) {
			return s, true, nil
		}
		select {
		case <-sub.wake:
		case <-late:
			return s, false, nil
		case <-r.hub.closed:
			return s, false, nil
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}
