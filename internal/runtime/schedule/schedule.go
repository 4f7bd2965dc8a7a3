package schedule

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CatchUp selects what happens to missed instants of a schedule (times at which it fires). An instant
// is missed if more time has passed since then than [Schedule.StartingDeadline] allows, because the
// sidecar was down or the run could not be started.
type CatchUp uint8

const (
	// CatchNone means that missed instants are not fired.
	CatchNone CatchUp = iota
	// CatchLast fires only the last missed instant, and not even that if a later instant is due.
	CatchLast
	// CatchAll fires the last missed instants, at most Schedule.Most of them, in order.
	CatchAll
)

var catchUps = [...]string{"none", "last", "all"}

// String returns the word for the value in the configuration file.
func (c CatchUp) String() string { return catchUps[c] }

// Schedule is one schedule of the operator's configuration file. It is immutable.
type Schedule struct {
	// Namespace and ID identify the schedule.
	Namespace string
	ID        string
	Rule      *Rule
	Catch     CatchUp
	// Most bounds the missed instants that CatchAll fires.
	Most int
	// StartingDeadline is how long after its planned time an instant may still start a run. After that
	// it counts as missed.
	StartingDeadline time.Duration
	// Jitter is the largest delay that is added to an instant, so that schedules do not all fire
	// together. The delay of an instant is derived from the ID and the instant.
	Jitter time.Duration
	// Skip means that an instant is skipped while the previous run of the schedule has not ended.
	Skip bool
	// Paused means that no instants are fired. The progress of the schedule is kept. Instants during
	// the pause count as missed, as if the sidecar had been down.
	Paused bool
	// Start is the request with which each run is started, without a RequestID. The principal in it
	// determines the rights of the run.
	Start runtime.StartRequest
}

// Prefix is the prefix of the request ids of scheduled runs.
const Prefix = "schedule/"

// These are the keys of the labels that a scheduled run has in addition to its own: the schedule, the
// instant, and the scopes of the principal that started it.
const (
	LabelSchedule = "pawl.schedule"
	LabelInstant  = "pawl.instant"
	LabelScopes   = "pawl.scopes"
)

// request returns the start request for an instant. Its RequestID is the same each time.
func (s *Schedule) request(instant time.Time) runtime.StartRequest {
	req := s.Start
	at := instant.UTC().Format(time.RFC3339)
	req.RequestID = Prefix + s.ID + "/" + at
	req.Given = []machine.Label{
		{Key: LabelSchedule, Value: s.ID}, {Key: LabelInstant, Value: at}, {Key: LabelScopes, Value: req.Principal.Scopes.String()},
	}
	return req
}

// fireTime returns the time at which an instant is fired: the instant plus its jitter.
func (s *Schedule) fireTime(instant time.Time) time.Time {
	if s.Jitter <= 0 {
		return instant
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(s.ID), uint64(instant.Unix())))
	return instant.Add(time.Duration(mixed(h.Sum64()) % uint64(s.Jitter+1)))
}

// mixed spreads the bits of a hash (as splitmix64 does), because the hashes of very similar inputs
// differ in few bits.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// plan is the decision about the instants (times at which the schedule fires) since the last one that
// was fired, skipped or missed.
type plan struct {
	// missed is the number of instants that are missed and will not be fired. All of them are earlier
	// than the instants that are fired. upto is the last of them.
	missed int
	upto   time.Time
	// fire are the instants to fire, in the order in which they are fired.
	fire []time.Time
	// next is the first instant that is not due yet, and fireTime is its planned time. Both are zero if
	// there is none.
	next, fireTime time.Time
}

// maxPlanAge bounds how far in the past a plan looks for missed instants.
const maxPlanAge = 10 * 366 * 24 * time.Hour

// plan decides, at the time now, about the instants after the time `after`.
func (s *Schedule) plan(after, now time.Time) (p plan) {
	after = laterTime(after, now.Add(-maxPlanAge))
	var missed []time.Time
	for p.next = s.Rule.Next(after); !p.next.IsZero(); p.next = s.Rule.Next(p.next) {
		// An instant is never fired before the previous one, even if that has a longer jitter.
		if p.fireTime = laterTime(p.fireTime, s.fireTime(p.next)); p.fireTime.After(now) {
			break
		}
		if p.fireTime.Before(now.Add(-s.StartingDeadline)) {
			missed = append(missed, p.next)
			if n := len(missed) - max(1, s.Most); n > 0 {
				p.missed, p.upto, missed = p.missed+n, missed[n-1], missed[n:]
			}
			continue
		}
		p.fire = append(p.fire, p.next)
	}
	n := len(missed)
	if s.Catch == CatchAll || s.Catch == CatchLast && len(p.fire) == 0 {
		n = len(missed) - min(len(missed), s.maxMissed())
	}
	if n > 0 {
		p.missed, p.upto = p.missed+n, missed[n-1]
	}
	p.fire = append(missed[n:], p.fire...)
	return p
}

// maxMissed returns how many missed instants may be fired.
func (s *Schedule) maxMissed() int {
	if s.Catch == CatchLast {
		return 1
	}
	return s.Most
}
