package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// statusOf derives the status of a run that has not ended (section 2): RUNNING
// while its turn is ready or out, WAITING while only an input, an outside
// event, a step's answer or a timer can move it. Paused is a flag of its own.
func statusOf(g *machine.Graph, s *machine.State) machine.Status {
	if s.Status.Terminal() {
		return s.Status
	}
	t := s.Turn
	if s.Undo != nil || t == nil || t.Suspended || t.NotBefore != 0 || asking(s.Steps) != nil || held(s.Steps) != nil || g.States[s.Current].Orchestration == machine.External {
		return machine.Waiting
	}
	return machine.Running
}

// readyOf says whether the run's turn is to be offered to workers.
func readyOf(g *machine.Graph, s *machine.State) bool {
	return s.Execution.Leased() && !s.Paused && statusOf(g, s) == machine.Running
}
