package schedule

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Shown is a schedule in a list. It is a copy, so the caller may change it.
type Shown struct {
	*Schedule
	Mark machine.ScheduleMark
	// Next are the next instants. It is empty if the schedule is paused or no instant was found.
	Next []time.Time
	// Fault describes the instant that could not be fired yet. It is nil if there is none.
	Fault *Fault
}

// upcoming is how many next instants are listed.
const upcoming = 5

// ListSchedules lists the schedules of a namespace in the order of the configuration file.
//
// Errors: PERMISSION_DENIED without the scope runs:read.
func (r *Scheduler) ListSchedules(call runtime.Call) ([]Shown, error) {
	ns, err := r.cfg.Engine.Admit(call, runtime.ScopeRunsRead)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	shown := []Shown{}
	for _, e := range r.entries {
		if e.mark.Namespace != ns {
			continue
		}
		one := Shown{Schedule: e.Schedule, Mark: e.mark}
		if !e.Paused {
			one.Next = e.upcoming(e.mark.After, r.cfg.Clock.Now())
		}
		if fault := e.fault; fault.Attempts > 0 {
			one.Fault = &fault
		}
		shown = append(shown, one)
	}
	return shown, nil
}

// upcoming returns the next instants after a mark whose planned time is later than now.
func (s *Schedule) upcoming(after int64, now time.Time) (next []time.Time) {
	at := later(time.Unix(0, after), now.Add(-s.Jitter-time.Minute))
	for len(next) < upcoming {
		if at = s.Rule.Next(at); at.IsZero() {
			break
		}
		if s.planned(at).After(now) {
			next = append(next, at)
		}
	}
	return next
}
