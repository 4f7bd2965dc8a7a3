//go:build sim

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
)

// fork begins a copy of a run at one of its records.
func (pp *people) fork(n *node, run string, dice *rand.Rand) {
	s := pp.world.oracle(n).states[run]
	if s == nil || s.Seq == 0 {
		return
	}
	id, at := pp.id(), 1+dice.Uint64N(s.Seq)
	seen := callSeen{object: n.name, id: id, who: approver.Principal, command: machine.Fork{}}
	pp.ask(n, fmt.Sprintf("fork %s of %s at %d", id, short(run), at), seen, func(ctx context.Context, p *process) (runtime.Answer, error) {
		answer, err := p.house.TimeTravel.ForkRun(ctx, timetravel.ForkRequest{RunRef: runtime.RunRef{Call: approver, RunID: run}, AtSeq: at, RequestID: id})
		if err == nil && p.ctx.Err() == nil && !answer.Duplicate {
			pp.runs[n] = append(pp.runs[n], answer.RunID)
		}
		return answer, err
	})
}

// forks compares every fork with its source: the copied model calls are the same as in the source, and
// the fork point has no differences.
func (w *world) forks() {
	for i, n := range w.stores {
		o := w.oracles[i]
		for j := range o.journal {
			e := &o.journal[j]
			for k := range e.Records {
				if origin, ok := e.Records[k].Body.(*machine.Origin); ok && !o.deleting[e.RunID] && !o.deleting[origin.RunID] {
					w.taken(n, e.RunID, origin)
					w.parts(n, e.RunID, origin)
				}
			}
		}
	}
}

// taken compares the transcripts of the calls that were taken over.
func (w *world) taken(n *node, run string, origin *machine.Origin) {
	if len(origin.Steps) == 0 {
		return
	}
	for at, step := range rules.Resolved(origin.State) {
		// A call without a result may have been made again since, by the source or by the fork.
		if step.Model == nil || step.Status == machine.StepStatusError {
			continue
		}
		source, err := n.runs.GetModelStep(context.Background(), &pawlv1.GetModelStepRequest{RunId: origin.RunID, Step: step.Step})
		if err != nil {
			w.fail("a fork has what its source has", "step %d of %s: %v", step.Step, origin.RunID, err)
			return
		}
		own, err := n.runs.GetModelStep(context.Background(), &pawlv1.GetModelStepRequest{RunId: run, Step: uint32(at) + 1})
		if err != nil {
			w.fail("a fork has what its source has", "step %d of %s: %v", at+1, run, err)
			return
		}
		a := content(source.GetSystem(), source.GetToolsJson(), source.GetParametersJson(), source.GetMessages())
		b := content(own.GetSystem(), own.GetToolsJson(), own.GetParametersJson(), own.GetMessages())
		if a != b || !proto.Equal(source.GetStep().GetModel().GetAnswer(), own.GetStep().GetModel().GetAnswer()) {
			w.fail("a fork has what its source has", "step %d of %s shows\n%s\nstep %d of %s\n%s", step.Step, origin.RunID, a, at+1, run, b)
		}
	}
}

// parts compares the source and the fork at the fork point.
func (w *world) parts(n *node, run string, origin *machine.Origin) {
	p := n.process()
	if p == nil {
		return
	}
	d, err := p.house.TimeTravel.DiffRuns(context.Background(), timetravel.DiffRequest{RunRef: runtime.RunRef{Call: n.as(operator), RunID: origin.RunID}, Seq: origin.State.Seq, Other: run, OtherSeq: 1})
	if err != nil {
		w.fail("a fork has what its source has", "the diff of %s and its fork %s: %v", origin.RunID, run, err)
		return
	}
	if len(d.BasePath)+len(d.OtherPath)+len(d.Visits)+len(d.Artifacts) > 0 {
		w.fail("a fork has what its source has", "%s at %d and its fork %s differ: %+v", origin.RunID, origin.State.Seq, run, d)
	}
}
