package schedule

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ListedSchedule is a schedule as it is listed. The Schedule is shared and must not be changed. All other
// fields are copies.
type ListedSchedule struct {
	*Schedule
	Mark machine.ScheduleMark
	// Next are the next instants at which the schedule fires. It is empty if the schedule is
	// paused or there is none.
	Next []time.Time
	// Fault describes the due instant that could not be fired yet. It is nil if there is none.
	Fault *Fault
}

// upcoming is the number of next instants that are listed for a schedule.
const upcoming = 5

// ListSchedules lists the schedules of a namespace in the order of the configuration file.
//
// Errors: PERMISSION_DENIED without the scope runs:read.
func (r *Scheduler) ListSchedules(call runtime.Call) ([]ListedSchedule, error) {
	ns, err := r.cfg.Engine.Admit(call, runtime.ScopeRunsRead)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	shown := []ListedSchedule{}
	for _, e := range r.entries {
		if e.mark.Namespace != ns {
			continue
		}
		one := ListedSchedule{Schedule: e.Schedule, Mark: e.mark}
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

// upcoming returns the next instants of the schedule that are not due yet. after is the last
// instant that was fired, skipped or missed.
func (s *Schedule) upcoming(after int64, now time.Time) (next []time.Time) {
	at := laterTime(time.Unix(0, after), now.Add(-s.Jitter-time.Minute))
	for len(next) < upcoming {
		if at = s.Rule.Next(at); at.IsZero() {
			break
		}
		if s.fireTime(at).After(now) {
			next = append(next, at)
		}
	}
	return next
}
