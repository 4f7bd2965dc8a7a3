package router

import (
	"context"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Backend is an open partition whose services execute calls.
type Backend interface {
	// Call calls a unary method by its full name.
	Call(ctx context.Context, method string, req any) (any, error)
	// Stream calls a streaming method by its full name.
	Stream(method string, stream grpc.ServerStream) error
	// ServeHTTP serves a request to an agent.
	ServeHTTP(w http.ResponseWriter, r *http.Request)
	// End ends streams and waiting calls with DRAINING. Calls that change state are continued.
	End()
	// Failed returns a channel that is closed when the partition's store accepts no more commits.
	Failed() <-chan struct{}
}

// Slot holds the open partition (a backend) that this node owns, and until when its lease is certainly
// valid. Safe for concurrent use.
type Slot struct {
	mu sync.Mutex
	// active is the open partition. It is nil while this node does not own the partition.
	active *activePartition
	// changed is closed and replaced when a backend is attached or its lease is renewed.
	changed chan struct{}
	// onChange is called when changed is closed.
	onChange func()
	// until is the time at which this node's lease on the partition may end, by the monotonic clock.
	// Zero means never.
	until      time.Time
	leaseTimer *time.Timer
}

// activePartition is an open partition (a backend) together with the calls that it is executing.
type activePartition struct {
	backend  Backend
	leaving  bool
	inFlight int
	// drained is closed when the partition accepts no more calls and the last running call has ended.
	drained chan struct{}
	// longCalls contains the streams and other long calls. They end with OWNER_LOST when the lease may
	// have ended, or when a handover no longer waits for them.
	longCalls group
}

// newSlot returns a slot without an open partition. The slot calls onChange when its state changes.
func newSlot(onChange func()) *Slot { return &Slot{changed: make(chan struct{}), onChange: onChange} }

// Attach puts an open partition (a backend) into the slot, which must be empty. From then on the
// partition gets calls.
func (s *Slot) Attach(backend Backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = &activePartition{backend: backend, drained: make(chan struct{})}
	s.notify()
}

// ExtendLease sets the time until which this node's lease on the partition is certainly valid. After
// this time the slot accepts no calls, and its streams end, because another node may own the partition.
// The time also applies to a partition that is attached later.
func (s *Slot) ExtendLease(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
	if left := time.Until(until); s.leaseTimer == nil {
		s.leaseTimer = time.AfterFunc(left, s.leaseExpired)
	} else {
		s.leaseTimer.Reset(left)
	}
	s.notify()
}

func (s *Slot) leaseExpired() {
	s.mu.Lock()
	now, over := s.active, s.expired()
	s.mu.Unlock()
	if now != nil && over {
		now.longCalls.end(&failed{broken()})
	}
}

// expired reports whether the lease may have ended.
func (s *Slot) expired() bool { return !s.until.IsZero() && !time.Now().Before(s.until) }

func (s *Slot) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.onChange()
}

// Changed returns a channel that is closed when the slot gets an open partition, or when its lease is
// renewed.
func (s *Slot) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Accepts reports whether this node accepts the calls of the slot's partition.
func (s *Slot) Accepts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open()
}

// InFlight returns the number of running calls.
func (s *Slot) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		return 0
	}
	return s.active.inFlight
}

func (s *Slot) open() bool { return s.active != nil && !s.active.leaving && !s.expired() }

// acquire counts a new call as running, so that the partition is not closed until [Slot.release] is
// called. It returns nil if the slot accepts no calls.
func (s *Slot) acquire() *activePartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return nil
	}
	s.active.inFlight++
	return s.active
}

func (s *Slot) release(from *activePartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from.inFlight--
	if from.leaving && from.inFlight == 0 {
		close(from.drained)
	}
}

// Detach closes the partition to new calls, ends streams and waiting calls, and waits for the answers
// of all others. If ctx ends before that, Detach aborts the remaining streams and returns the context's
// error. In both cases the caller must close the returned partition. It is nil if the slot was empty, or if
// another Detach is running.
func (s *Slot) Detach(ctx context.Context) (Backend, error) {
	s.mu.Lock()
	now := s.active
	if now == nil || now.leaving {
		s.mu.Unlock()
		return nil, nil
	}
	now.leaving = true
	if now.inFlight == 0 {
		close(now.drained)
	}
	s.mu.Unlock()
	now.backend.End()
	var err error
	select {
	case <-now.drained:
	case <-ctx.Done():
		err = ctx.Err()
		now.longCalls.end(&failed{broken()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = nil
	return now.backend, err
}

// bindToLease returns a context for a long call. It ends when the lease may have ended, or when a
// handover no longer waits for the call. The caller must call leave when the call ends.
func (s *Slot) bindToLease(ctx context.Context, at *activePartition) (in context.Context, leave func()) {
	in, leave = at.longCalls.enter(ctx)
	if s.isGone(at) { // the lease ended after acquire
		at.longCalls.end(&failed{broken()})
	}
	return in, leave
}

// isGone reports whether the partition was detached from the slot or its lease may have ended.
func (s *Slot) isGone(at *activePartition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expired() || s.active != at
}

// classify wraps err as [failed] if the partition failed during the call, so that err is not the answer
// of the call. This is so if the store has failed, or if err has no reason and the partition was detached
// or its lease may have ended.
func (s *Slot) classify(at *activePartition, err error) error {
	if err != nil && reasonOf(err) == "" && s.isGone(at) {
		return &failed{err}
	}
	return wrapIfFailed(at.backend, err)
}

// call makes a unary call at the open partition in the slot. If the method may block, the context of
// the call ends with the lease. here is false if the slot accepts no calls.
func (s *Slot) call(ctx context.Context, method string, req any) (resp any, here bool, err error) {
	at := s.acquire()
	if at == nil {
		return nil, false, nil
	}
	defer s.release(at)
	if !methods[method].mayBlock() {
		resp, err = at.backend.Call(ctx, method, req)
		return resp, true, s.classify(at, err)
	}
	ctx, leave := s.bindToLease(ctx, at)
	defer leave()
	resp, err = at.backend.Call(ctx, method, req)
	return resp, true, ended(ctx, s.classify(at, err))
}

// stream makes a streaming call at the open partition in the slot. The context of the call ends with
// the lease. here is false if the slot accepts no calls.
func (s *Slot) stream(ctx context.Context, method string, on func(ctx context.Context) grpc.ServerStream) (here bool, err error) {
	at := s.acquire()
	if at == nil {
		return false, nil
	}
	defer s.release(at)
	ctx, leave := s.bindToLease(ctx, at)
	defer leave()
	return true, ended(ctx, s.classify(at, at.backend.Stream(method, on(ctx))))
}

// serve passes an HTTP request for an agent to the open partition in the slot. The context of the
// request ends with the lease. here is false if the slot accepts no calls.
func (s *Slot) serve(ctx context.Context, w http.ResponseWriter, in func(ctx context.Context) *http.Request) (here bool) {
	at := s.acquire()
	if at == nil {
		return false
	}
	defer s.release(at)
	ctx, leave := s.bindToLease(ctx, at)
	defer leave()
	at.backend.ServeHTTP(w, in(ctx))
	return true
}
