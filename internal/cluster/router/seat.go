package router

import (
	"context"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Home is the house of a partition, open and served, as calls reach it.
type Home interface {
	// Call calls a unary method by its full name.
	Call(ctx context.Context, method string, req any) (any, error)
	// Stream calls a method that streams.
	Stream(method string, stream grpc.ServerStream) error
	// ServeHTTP serves a request to an agent.
	ServeHTTP(w http.ResponseWriter, r *http.Request)
	// End ends streams and waits with DRAINING. What changes something goes on.
	End()
	// Failed is closed when its store takes no more commits.
	Failed() <-chan struct{}
}

// Seat is where this node's house of a partition is while it has that. Safe for concurrent use. See
// [Seats].
type Seat struct {
	mu sync.Mutex
	// now is nil while another node has the partition, or none.
	now *stay
	// changed is closed and made anew when a house comes, or its lease is renewed.
	changed chan struct{}
	// told is called when changed is closed.
	told func()
	// until is when the lease may have ended, by the monotonic clock; zero: it does not.
	until time.Time
	lapse *time.Timer
}

// stay is a house with the calls that are inside.
type stay struct {
	home    Home
	leaving bool
	inside  int
	// empty is closed when a house that leaves has no call inside.
	empty chan struct{}
	// lasting are the calls that end when the lease may have: with OWNER_LOST, since they were begun.
	lasting group
}

// newSeat is empty.
func newSeat(told func()) *Seat { return &Seat{changed: make(chan struct{}), told: told} }

// Put opens a house to calls. There must be none.
func (s *Seat) Put(home Home) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = &stay{home: home, empty: make(chan struct{})}
	s.tell()
}

// Extend says until when the lease holds for certain. Behind that nobody enters and streams end:
// what a house remembers may be another node's by then. A house that comes later is held to it,
// too.
func (s *Seat) Extend(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
	if left := time.Until(until); s.lapse == nil {
		s.lapse = time.AfterFunc(left, s.lapsed)
	} else {
		s.lapse.Reset(left)
	}
	s.tell()
}

func (s *Seat) lapsed() {
	s.mu.Lock()
	now, over := s.now, s.over()
	s.mu.Unlock()
	if now != nil && over {
		now.lasting.end(&failed{broken()})
	}
}

// over: the lease may have ended.
func (s *Seat) over() bool { return !s.until.IsZero() && !time.Now().Before(s.until) }

func (s *Seat) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.told()
}

// Changed is closed when a house comes, or its lease is renewed.
func (s *Seat) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Has says whether calls are made here.
func (s *Seat) Has() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open()
}

// Inside counts the calls that are in the house.
func (s *Seat) Inside() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return 0
	}
	return s.now.inside
}

func (s *Seat) open() bool { return s.now != nil && !s.now.leaving && !s.over() }

// enter keeps the house open until [Seat.leave]; nil: there is none.
func (s *Seat) enter() *stay {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return nil
	}
	s.now.inside++
	return s.now
}

func (s *Seat) leave(from *stay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from.inside--
	if from.leaving && from.inside == 0 {
		close(from.empty)
	}
}

// Take closes the house to calls, ends what waits in it and waits until the rest has its answer.
// When ctx ends first it returns the context's error, and streams that are left are cut off. The
// house is the caller's then in both cases; nil: there was none.
func (s *Seat) Take(ctx context.Context) (Home, error) {
	s.mu.Lock()
	now := s.now
	if now == nil || now.leaving {
		s.mu.Unlock()
		return nil, nil
	}
	now.leaving = true
	if now.inside == 0 {
		close(now.empty)
	}
	s.mu.Unlock()
	now.home.End()
	var err error
	select {
	case <-now.empty:
	case <-ctx.Done():
		err = ctx.Err()
		now.lasting.end(&failed{broken()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = nil
	return now.home, err
}

// lasts has a call that entered end with the lease, and with the house where nobody waits for it.
func (s *Seat) lasts(ctx context.Context, at *stay) (in context.Context, leave func()) {
	in, leave = at.lasting.enter(ctx)
	if s.isGone(at) { // in between
		at.lasting.end(&failed{broken()})
	}
	return in, leave
}

// isGone: a house is another's to close, or its lease may have ended.
func (s *Seat) isGone(at *stay) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over() || s.now != at
}

// unless is the error of a call whose house was closed under it, because it took too long, or whose store failed:
// that is no answer. A refusal was one when it was given.
func (s *Seat) unless(at *stay, err error) error {
	if err != nil && reasonOf(err) == "" && s.isGone(at) {
		return &failed{err}
	}
	return unlessFailed(at.home, err)
}

// call makes a unary call at the house, one that may wait in a context that ends with the lease;
// false: there is none.
func (s *Seat) call(ctx context.Context, method string, req any) (resp any, here bool, err error) {
	at := s.enter()
	if at == nil {
		return nil, false, nil
	}
	defer s.leave(at)
	if !methods[method].lasts() {
		resp, err = at.home.Call(ctx, method, req)
		return resp, true, s.unless(at, err)
	}
	ctx, leave := s.lasts(ctx, at)
	defer leave()
	resp, err = at.home.Call(ctx, method, req)
	return resp, true, ended(ctx, s.unless(at, err))
}

// stream makes a call that streams at the house, on a stream in a context that ends with the lease;
// false: there is none.
func (s *Seat) stream(ctx context.Context, method string, on func(ctx context.Context) grpc.ServerStream) (here bool, err error) {
	at := s.enter()
	if at == nil {
		return false, nil
	}
	defer s.leave(at)
	ctx, leave := s.lasts(ctx, at)
	defer leave()
	return true, ended(ctx, s.unless(at, at.home.Stream(method, on(ctx))))
}

// serve serves a request to an agent at the house, in a context that ends with the lease; false: there
// is none.
func (s *Seat) serve(ctx context.Context, w http.ResponseWriter, in func(ctx context.Context) *http.Request) (here bool) {
	at := s.enter()
	if at == nil {
		return false
	}
	defer s.leave(at)
	ctx, leave := s.lasts(ctx, at)
	defer leave()
	at.home.ServeHTTP(w, in(ctx))
	return true
}
