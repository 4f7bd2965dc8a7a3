package schedule

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CatchUp says what becomes of instants that are missed: those that come later than
// [Schedule.StartingDeadline] allows, because the sidecar was down or the run could not be started.
type CatchUp uint8

const (
	// CatchNone gives them up.
	CatchNone CatchUp = iota
	// CatchLast fires the last of them, unless one is due that is not missed.
	CatchLast
	// CatchAll fires the last Schedule.Most of them in their order.
	CatchAll
)

var catchUps = [...]string{"none", "last", "all"}

// String is the word of the file.
func (c CatchUp) String() string { return catchUps[c] }

// Schedule is an entry of the operator's file. It is not changed after it was made.
type Schedule struct {
	// Namespace and ID name it.
	Namespace string
	ID        string
	Rule      *Rule
	Catch     CatchUp
	// Most bounds what CatchAll fires.
	Most int
	// StartingDeadline is how much later than planned an instant may be fired and is not missed.
	StartingDeadline time.Duration
	// Jitter is the longest that an instant is put off; how long is made of ID and instant.
	Jitter time.Duration
	// Skip: an instant is skipped while the run of the one before has not ended.
	Skip bool
	// Paused: nothing is fired, and its mark stays. Once it goes on, what came meanwhile is
	// missed as if nobody had been there.
	Paused bool
	// Start is the run of each instant, less its RequestID; its principal has the rights.
	Start runtime.StartRequest
}

// Prefix begins the request id of a firing.
const Prefix = "schedule/"

// Labels that the run of a firing has besides its own: the schedule, its instant, and the rights
// that it was started with.
const (
	LabelSchedule = "pawl.schedule"
	LabelInstant  = "pawl.instant"
	LabelScopes   = "pawl.scopes"
)

// request is the StartRun of an instant.
func (s *Schedule) request(instant time.Time) runtime.StartRequest {
	req := s.Start
	at := instant.UTC().Format(time.RFC3339)
	req.RequestID = Prefix + s.ID + "/" + at
	req.Given = []machine.Label{
		{Key: LabelSchedule, Value: s.ID}, {Key: LabelInstant, Value: at}, {Key: LabelScopes, Value: req.Principal.Scopes.String()},
	}
	return req
}

// planned is when an instant is fired: itself, put off by its jitter.
func (s *Schedule) planned(instant time.Time) time.Time {
	if s.Jitter <= 0 {
		return instant
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(s.ID), uint64(instant.Unix())))
	return instant.Add(time.Duration(mixed(h.Sum64()) % uint64(s.Jitter+1)))
}

// mixed spreads the bits of a hash of inputs that are much alike, as splitmix64 does.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// plan is what is to be done about the instants behind a mark.
type plan struct {
	// missed instants are given up, before all that are fired; upto is the last of them.
	missed int
	upto   time.Time
	// fire are to be fired, in this order.
	fire []time.Time
	// next is the first that is not due, planned when; zero = there is none in sight.
	next, when time.Time
}

// oldest bounds how far back instants are looked for.
const oldest = 10 * 366 * 24 * time.Hour

// plan decides about the instants behind a mark as of now.
func (s *Schedule) plan(after, now time.Time) (p plan) {
	after = later(after, now.Add(-oldest))
	var missed []time.Time
	for p.next = s.Rule.Next(after); !p.next.IsZero(); p.next = s.Rule.Next(p.next) {
		// None overtakes the one before, whose jitter may be longer.
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

// most is how many missed instants are fired.
func (s *Schedule) most() int {
	if s.Catch == CatchLast {
		return 1
	}
	return s.Most
}
