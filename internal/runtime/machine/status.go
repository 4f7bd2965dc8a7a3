package machine

// Names of the statuses as they appear in indexes, in JSON and to people.
var statusNames = [...]string{
	StatusUnset:     "UNSET",
	Running:         "RUNNING",
	Waiting:         "WAITING",
	Completed:       "COMPLETED",
	BudgetExhausted: "BUDGET_EXHAUSTED",
	Escalated:       "ESCALATED",
	Failed:          "FAILED",
	Cancelled:       "CANCELLED",
}

// String is the bare name, for example "BUDGET_EXHAUSTED".
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN"
}

// statusOf derives the status of a run that has not ended (section 2): RUNNING
// while its turn is ready or out, WAITING while only an input, an outside
// event, a step's answer or a timer can move it. Paused is a flag of its own.
func statusOf(g *Graph, s *State) Status {
	if s.Status.Terminal() {
		return s.Status
	}
	t := s.Turn
	if t == nil || t.Suspended || t.NotBefore != 0 || asking(s.Steps) != nil || g.States[s.Current].Orchestration == External {
		return Waiting
	}
	return Running
}

// readyOf says whether the run's turn is to be offered to workers.
func readyOf(g *Graph, s *State) bool {
	return s.Execution == Workers && !s.Paused && statusOf(g, s) == Running
}
