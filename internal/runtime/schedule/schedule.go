package schedule

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CatchUp selects what happens to missed instants. An instant is missed if it is later than
// [Schedule.StartingDeadline] allows, because the sidecar was down or the run could not be started.
type CatchUp uint8

const (
	// CatchNone skips them.
	CatchNone CatchUp = iota
	// CatchLast fires the last missed instant, unless an instant that is not missed is due.
	CatchLast
	// CatchAll fires the last missed instants, at most Schedule.Most of them, in order.
	CatchAll
)

var catchUps = [...]string{"none", "last", "all"}

// String returns the word of the configuration file.
func (c CatchUp) String() string { return catchUps[c] }

// Schedule is one schedule of the operator's configuration file. It is immutable.
type Schedule struct {
	// Namespace and ID identify it.
	Namespace string
	ID        string
	Rule      *Rule
	Catch     CatchUp
	// Most bounds the instants that CatchAll fires.
	Most int
	// StartingDeadline is the longest time between the planned time of an instant and its start. After
	// that the instant is missed.
	StartingDeadline time.Duration
	// Jitter is the longest delay of an instant. The actual delay is derived from the ID and the
	// instant.
	Jitter time.Duration
	// Skip reports whether an instant is skipped while the previous run has not ended.
	Skip bool
	// Paused reports whether no instants are fired. The progress of the schedule is kept. Instants
	// during the pause count as missed, as if the sidecar had been down.
	Paused bool
	// Start is the start request for each run, without a RequestID. The run has the rights of the
	// principal of the request.
	Start runtime.StartRequest
}

// Prefix is the prefix of the request ids of scheduled runs.
const Prefix = "schedule/"

// These are the labels that a scheduled run has in addition to its own labels: the schedule, its
// instant, and the scopes of the start.
const (
	LabelSchedule = "pawl.schedule"
	LabelInstant  = "pawl.instant"
	LabelScopes   = "pawl.scopes"
)

// request returns the StartRun of an instant.
func (s *Schedule) request(instant time.Time) runtime.StartRequest {
	req := s.Start
	at := instant.UTC().Format(time.RFC3339)
	req.RequestID = Prefix + s.ID + "/" + at
	req.Given = []machine.Label{
		{Key: LabelSchedule, Value: s.ID}, {Key: LabelInstant, Value: at}, {Key: LabelScopes, Value: req.Principal.Scopes.String()},
	}
	return req
}

// planned returns the time at which an instant is fired. It is the instant plus its jitter.
func (s *Schedule) planned(instant time.Time) time.Time {
	if s.Jitter <= 0 {
		return instant
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(s.ID), uint64(instant.Unix())))
	return instant.Add(time.Duration(mixed(h.Sum64()) % uint64(s.Jitter+1)))
}

// mixed spreads the bits of a hash, in the same way as splitmix64. This is necessary because the hashed
// inputs are very similar.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// plan is the decision about the instants after a mark.
type plan struct {
	// missed is the number of instants that are missed and not fired. All of them are earlier than the
	// instants that are fired. upto is the last missed instant.
	missed int
	upto   time.Time
	// fire are the instants to fire, in the order in which they are fired.
	fire []time.Time
	// next is the first instant that is not due, and when is its planned time. Both are zero if no such
	// instant was found.
	next, when time.Time
}

// oldest bounds how far back instants are searched.
const oldest = 10 * 366 * 24 * time.Hour

// plan decides about the instants after a mark at the time now.
func (s *Schedule) plan(after, now time.Time) (p plan) {
	after = later(after, now.Add(-oldest))
	var missed []time.Time
	for p.next = s.Rule.Next(after); !p.next.IsZero(); p.next = s.Rule.Next(p.next) {
		// An instant is never fired before the previous one, which may have a longer jitter.
		if p.when = later(p.when, s.planned(p.next)); p.when.After(now) {
			break
		}
		if p.when.Before(now.Add(-s.StartingDeadline)) {
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
		n = len(missed) - min(len(missed), s.most())
	}
	if n > 0 {
		p.missed, p.upto = p.missed+n, missed[n-1]
	}
	p.fire = append(missed[n:], p.fire...)
	return p
}

// most returns how many missed instants are fired.
func (s *Schedule) most() int {
	if s.Catch == CatchLast {
		return 1
	}
	return s.Most
}
