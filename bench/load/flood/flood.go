package flood

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/bench/load/stat"
)

// Call makes one request and waits for its answer.
type Call func(ctx context.Context) error

// Clients are those of one measurement; each makes one call after the other.
type Clients struct {
	// Steady are there from the beginning to the end.
	Steady []Call
	// Crowd comes in addition, one call after the other, and ends again. A refused call is repeated
	// after the time in its error.
	Crowd []Call
}

// Times of one measurement.
type Times struct {
	// Warm is not measured; Window is how long the steady clients are alone, and how long
	// the crowd is there, after it took Arrival to come; Patience is how long the end of
	// the crowd is looked at.
	Warm, Arrival, Window, RecoveryTimeout time.Duration
}

// Result of one measurement.
type Result struct {
	// BaselineP99ms is the latency of the steady clients before the crowd came, AcceptedP99ms
	// that of all calls that were taken while it was there, RefusedP99ms of those refused.
	BaselineP99ms float64 `json:"alone_p99_ms"`
	AcceptedP99ms float64 `json:"accepted_p99_ms"`
	RefusedP99ms  float64 `json:"refused_p99_ms"`
	// RecoveryMs is from the crowd's end to the end of the first tenth of a second in which
	// the steady clients' p99 is at most twice what it was alone.
	RecoveryMs float64 `json:"recovery_ms"`
	// Accepted and Refused count the calls while the crowd was there.
	Accepted uint64 `json:"accepted"`
	Refused  uint64 `json:"refused"`
}

// slice is the width of what the recovery is read from.
const slice = 100 * time.Millisecond

// phases in their order; those of the recovery follow, one a slice.
const (
	warm = iota
	baseline
	crowded
	recovery
)

// errNoRecovery: the steady clients did not find back to their pace.
var errNoRecovery = errors.New("the steady clients did not recover in time")

// run is one measurement under way.
type run struct {
	phase atomic.Int64
	mu    sync.Mutex
	// taken and refused have a histogram for each phase.
	taken, refused map[int64]*stat.Histogram
	fault          error
}

// Run measures. A call that fails otherwise than by RESOURCE_EXHAUSTED ends it with its error.
func Run(ctx context.Context, clients Clients, times Times) (Result, error) {
	r := &run{taken: map[int64]*stat.Histogram{}, refused: map[int64]*stat.Histogram{}}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	for _, call := range clients.Steady {
		all.Go(func() { r.client(ctx, call) })
	}
	r.last(ctx, warm, times.Warm)
	r.last(ctx, baseline, times.Window)
	there, gone := context.WithCancel(ctx)
	for i, call := range clients.Crowd {
		arrival := times.Arrival * time.Duration(i) / time.Duration(len(clients.Crowd))
		all.Go(func() {
			wait(there, arrival)
			r.client(there, call)
		})
	}
	r.last(ctx, crowded, times.Arrival+times.Window)
	gone()
	slices := int64(times.RecoveryTimeout / slice)
	for n := range slices {
		r.last(ctx, recovery+n, slice)
	}
	end()
	all.Wait()
	return r.result(slices)
}

// last lets a phase last.
func (r *run) last(ctx context.Context, phase int64, d time.Duration) {
	r.phase.Store(phase)
	wait(ctx, d)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// client makes one call after the other until its life ends.
func (r *run) client(life context.Context, call Call) {
	for life.Err() == nil {
		phase, began := r.phase.Load(), time.Now()
		// What was begun is waited for: a call that is cut off is neither taken nor refused.
		err := call(context.WithoutCancel(life))
		took := time.Since(began)
		if err == nil {
			r.count(r.taken, phase, took)
			continue
		}
		if status.Code(err) != codes.ResourceExhausted {
			r.fail(err)
			return
		}
		r.count(r.refused, phase, took)
		wait(life, pauseOf(err))
	}
}

// pauseOf is the time that a refusal names; a refusal without one is a fault that shows as
// a crowd that never pauses.
func pauseOf(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

func (r *run) count(histograms map[int64]*stat.Histogram, phase int64, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if histograms[phase] == nil {
		histograms[phase] = &stat.Histogram{}
	}
	histograms[phase].Add(took)
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = errors.Join(r.fault, err)
}

func (r *run) result(slices int64) (Result, error) {
	out := Result{
		BaselineP99ms: p99(r.taken[baseline]), AcceptedP99ms: p99(r.taken[crowded]), RefusedP99ms: p99(r.refused[crowded]),
		Accepted: calls(r.taken[crowded]), Refused: calls(r.refused[crowded]),
	}
	for n := range slices {
		if h := r.taken[recovery+n]; h != nil && p99(h) <= 2*out.BaselineP99ms {
			out.RecoveryMs = float64((n + 1) * slice.Milliseconds())
			return out, r.fault
		}
	}
	return out, errors.Join(r.fault, errNoRecovery)
}

func calls(h *stat.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count()
}

func p99(h *stat.Histogram) float64 {
	if h == nil {
		return 0
	}
	return float64(h.Quantile(0.99)) / float64(time.Millisecond)
}
