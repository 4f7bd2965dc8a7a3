//go:build sim

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
)

// schedulesEvery selects the seeds with schedules: one in this many.
const schedulesEvery = 4

// mostCaughtUp bounds the missed times for which catch-up "all" starts runs.
const mostCaughtUp = 3

// agenda is the operator's file with three schedules: every minute with catch-up of all missed times,
// every second minute with the last one, every third minute with none.
func agenda() (all []*schedule.Schedule) {
	for i, catch := range []schedule.CatchUp{schedule.CatchAll, schedule.CatchLast, schedule.CatchNone} {
		rule, err := schedule.ParseCron(fmt.Sprintf("*/%d * * * *", i+1), time.UTC)
		if err != nil {
			panic(err)
		}
		s := &schedule.Schedule{Namespace: "default", ID: catch.String(), Rule: rule, Catch: catch, Most: mostCaughtUp, StartingDeadline: 20 * time.Second}
		if catch == schedule.CatchLast {
			s.Jitter = 5 * time.Second
		}
		s.Start = runtime.StartRequest{Call: driver, Pack: "sim", Execution: machine.Workers}
		all = append(all, s)
	}
	return all
}

// keepTime starts runs by schedules until the process ends.
func (p *process) keepTime(n *node) {
	if n.world.seed%schedulesEvery != 0 {
		return
	}
	p.executing.Go(func() {
		for p.works.Err() == nil {
			before := p.clock.Now()
			err := p.house.Schedules.Replace(p.works, agenda())
			if !n.agendaKnown {
				// A call without an answer may have set the schedules, and the clock may be set in the
				// meantime.
				n.agendaSince = append(n.agendaSince, before, p.clock.Now())
				n.agendaKnown = err == nil
			}
			if err == nil {
				_ = p.house.Schedules.Run(p.works)
				return
			}
			_ = pause(p.works, 500*time.Millisecond)
		}
	})
}

// instantOf returns the schedule and the time for which a run was started; "" = a caller started it.
func instantOf(e *machine.Entry) (id string, at time.Time) {
	if _, ok := e.Input.Command.(machine.Start); !ok || !strings.HasPrefix(e.Input.ID, schedule.Prefix) {
		return "", time.Time{}
	}
	id, text, _ := strings.Cut(strings.TrimPrefix(e.Input.ID, schedule.Prefix), "/")
	at, _ = time.Parse(time.RFC3339, text)
	return id, at
}

// every is how many minutes lie between two instants of a schedule.
var every = map[string]int{"all": 1, "last": 2, "none": 3}

// fired checks the start of a run by a schedule: it is for a scheduled time, not before that time, and
// after the previous one. Without catch-up it is not too late.
func (o *oracle) fired(e *machine.Entry) {
	id, at := instantOf(e)
	if id == "" {
		return
	}
	begun := time.Unix(0, e.Input.At)
	switch before := o.instants[id]; {
	case every[id] == 0 || at.Second() != 0 || at.Minute()%every[id] != 0:
		o.world.fail("runs begin by the clock", "%s: %s is fired for %v", o.node.name, id, at)
	case !at.After(before):
		o.world.fail("an instant is fired once", "%s: %s is fired for %v behind %v", o.node.name, id, at, before)
	case begun.Before(at) && !o.world.jumped:
		o.world.fail("runs begin by the clock", "%s: %s is fired for %v at %v", o.node.name, id, at, begun)
	}
	o.instants[id] = at
	o.firings[id]++
}

// onTime compares, at the end, the position of each schedule with the runs that it started, and both
// with the clock.
func (w *world) onTime() {
	for i, n := range w.nodes {
		o, p := w.oracles[i], n.process()
		if p == nil || !n.agendaKnown {
			continue
		}
		shown, err := p.house.Schedules.ListSchedules(operator)
		if err != nil || len(shown) != len(every) {
			w.fail("runs begin by the clock", "%s: %d schedules, %v", n.name, len(shown), err)
			continue
		}
		for j := range shown {
			w.counted(n, o, &shown[j])
		}
	}
}

// due is how many instants of a schedule are behind a time, up to the last.
func due(id string, since, last time.Time) (n int) {
	for at := since.UTC().Truncate(time.Minute).Add(time.Minute); !at.After(last); at = at.Add(time.Minute) {
		if at.Minute()%every[id] == 0 {
			n++
		}
	}
	return n
}

// counted checks that each scheduled time since the beginning had a run or was skipped.
func (w *world) counted(n *node, o *oracle, s *schedule.ListedSchedule) {
	m := &s.Mark
	if int(m.Fired) != o.firings[s.ID] {
		w.fail("an instant is fired once", "%s: %s counts %d runs, and began %d", n.name, s.ID, m.Fired, o.firings[s.ID])
	}
	last := time.Unix(0, m.After).UTC()
	if !slices.ContainsFunc(n.agendaSince, func(since time.Time) bool { return due(s.ID, since, last) == int(m.Fired+m.Missed) }) {
		w.fail("each instant is fired or given up", "%s: %s has fired %d and missed %d from one of %v to %v", n.name, s.ID, m.Fired, m.Missed, n.agendaSince, last)
	}
	if !w.jumped && s.ID == "all" && m.Missed > 0 {
		w.fail("each instant is fired or given up", "%s: %s has missed %d, and nobody set the clock", n.name, s.ID, m.Missed)
	}
	w.note("%s: %s has fired %d and missed %d", n.name, s.ID, m.Fired, m.Missed)
}
