//go:build sim

package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// These constants select the seeds with the operator's limits: in one of limitsEvery seeds, limits of
// concurrent calls; in another one, limits per minute.
const (
	limitsEvery = 3
	mostOpen    = 2
	mostBooking = 1
	mostBegun   = 24
)

// openLimits and paceLimits are the two tables.
var (
	openLimits = limitsOf(
		ratelimit.Limit{ID: "models", Source: "model", Concurrent: mostOpen},
		ratelimit.Limit{ID: "seats", Source: `tool.startsWith("book") ? "seats" : ""`, Concurrent: mostBooking},
	)
	paceLimits = limitsOf(ratelimit.Limit{ID: "models", Source: "model", PerMinute: mostBegun})
)

func limitsOf(limits ...ratelimit.Limit) *ratelimit.Table {
	language, err := ratelimit.Language()
	if err != nil {
		panic(err)
	}
	table := &ratelimit.Table{Tenant: "tenant"}
	for _, l := range limits {
		if l.Key, err = language.Compile(l.Source, expr.Text); err != nil {
			panic(err)
		}
		table.Limits = append(table.Limits, &l)
	}
	return table
}

// limits are those of the seed; nil: there are none.
func (w *world) limits() *ratelimit.Table {
	switch w.seed % limitsEvery {
	case 1:
		return openLimits
	case 2:
		return paceLimits
	}
	return nil
}

// admitted is what a node's journal says of calls of models, under limits.
type admitted struct {
	// open are the pending MODEL steps of each run.
	open map[string]int
	// begun are when the last calls were asked for.
	begun []int64
}

// begins checks an entry against the limits: the number of open calls, and the number of calls in a
// minute.
func (o *oracle) begins(e *machine.Entry) {
	table := o.world.limits()
	if table == nil {
		return
	}
	a := &o.admitted
	for i := range e.Records {
		if b, ok := e.Records[i].Body.(*machine.StepRequested); ok && b.Kind == machine.KindModel && b.Attempt == 1 && !o.world.jumped {
			a.begun = append(a.begun, e.Records[i].At)
		}
	}
	if table == paceLimits {
		o.paced(e)
		return
	}
	if a.open == nil {
		a.open = map[string]int{}
	}
	before := a.open[e.RunID]
	a.open[e.RunID] = 0
	if s := o.states[e.RunID]; s != nil && !s.Status.Terminal() {
		a.open[e.RunID] = len(slices.DeleteFunc(slices.Clone(s.Steps), func(p machine.ToolStep) bool { return p.Model == nil || p.Status != machine.StepStatusPending }))
	}
	total := 0
	for _, n := range a.open {
		total += n
	}
	if total > mostOpen && a.open[e.RunID] > before {
		o.world.fail("no more are open than may be", "%s: %d calls of models are open by record %d of %s", o.node.name, total, e.First, e.RunID)
	}
}

// paced: no minute has more.
func (o *oracle) paced(e *machine.Entry) {
	begun := o.admitted.begun
	if n := len(begun); n > mostBegun && begun[n-1]-begun[n-1-mostBegun] < int64(time.Minute) {
		o.world.fail("no minute has more than may begin", "%s: %d calls of models began within %v up to record %d of %s",
			o.node.name, mostBegun+1, time.Duration(begun[n-1]-begun[n-1-mostBegun]), e.First, e.RunID)
	}
}

// call is a call of a tool that runs at a worker of a node.
type call struct {
	run     string
	step    uint32
	attempt int
}

// busy are the running calls of limited tools, by node. Calls of a lost worker may be among them
// although no step waits for them.
type busy map[*node][]call

// enters records that a call begins, and checks that the number of pending calls within the limit is
// not exceeded. Only the current attempt of a step counts.
func (b *bookings) enters(n *node, s *pawl.Step) (leaves func()) {
	lease := s.Assignment.GetLease()
	c := call{run: lease.GetRunId(), step: lease.GetStep(), attempt: int(lease.GetAttempt())}
	b.mu.Lock()
	b.busy[n] = append(b.busy[n], c)
	all := slices.Clone(b.busy[n])
	b.mu.Unlock()
	if p := n.process(); p != nil && b.world.limits() == openLimits {
		seats := map[string]bool{}
		for _, other := range all {
			if other.placed(n, p) {
				seats[fmt.Sprintf("%s/%d", other.run, other.step)] = true
			}
		}
		if len(seats) > mostBooking && p.ctx.Err() == nil {
			b.world.fail("no more are open than may be", "%s: %s run at once", n.name, strings.Join(slices.Sorted(maps.Keys(seats)), ", "))
		}
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.busy[n], c); i >= 0 {
			b.busy[n] = slices.Delete(b.busy[n], i, i+1)
		}
	}
}

// placed: the call is one that its run waits for.
func (c call) placed(n *node, p *process) bool {
	s, err := p.house.StateAt(context.Background(), runtime.RunRef{Call: n.as(operator), RunID: c.run}, 0)
	if err != nil || s.Status.Terminal() {
		return false
	}
	return slices.ContainsFunc(s.Steps, func(t machine.ToolStep) bool { return t.Step == c.step && t.AwaitingAnswer() && t.Attempt == c.attempt })
}
