package pack

import "slices"

// Termination describes whether all runs of one entry end because of the pack's own bounds: no cycle, max_visits,
// max_iterations and max_total_visits. Time, tools and the operator's limits are not considered.
type Termination struct {
	// Entry is the state or agent for which the analysis was made.
	Entry string `json:"entry"`
	// Bounded reports whether every run ends, independent of the events that occur.
	Bounded bool `json:"bounded"`
	// BoundedBy are the reasons why runs end: "acyclic", "max_visits", "max_iterations", "max_total_visits".
	BoundedBy []string `json:"bounded_by"`
	// MaxVisits is the maximum number of visits of states in any run. nil means that there is no bound.
	MaxVisits *int64 `json:"max_visits"`
	// Exact reports whether a run can really reach MaxVisits, or whether Cycle can really repeat
	// forever. If it is false, MaxVisits is a proven upper bound, or the analysis could not exclude the
	// cycle within its limits.
	Exact bool `json:"exact"`
	// Cycle are the events that can be repeated without end. It is set if Bounded is false.
	Cycle []string `json:"cycle"`
	// CycleStart is the state in which Cycle begins and ends. Lead are the events that lead from the entry to CycleStart, as a run must
	// follow them before it can repeat Cycle. Lead is set only if Exact is true.
	CycleStart string   `json:"cycle_start,omitempty"`
	Lead       []string `json:"lead,omitempty"`
	// AlsoLimitedBy are limits that also end a run but that the analysis does not use.
	AlsoLimitedBy []string `json:"also_limited_by"`
	// Agents are the results for the agent members, sorted by key. They are set only in the analysis of a whole pack.
	Agents []Termination `json:"agents,omitempty"`
}

// Analyze returns the termination analysis of the workflow from its entry, and of the entries of all
// agents. It returns nil if there is no workflow.
func (p *Pack) Analyze() *Termination {
	if p.Doc.Workflow == nil {
		return nil
	}
	a := p.newAnalysis()
	t := a.state(p.Doc.Workflow.Entry)
	for _, member := range p.Members() {
		sub := a.start(p.agentStart(member))
		sub.Entry = agentPrefix + member
		t.Agents = append(t.Agents, *sub)
	}
	return t
}

// AnalyzeEntry returns the termination analysis of one entry. Errors: [*EntryError].
func (p *Pack) AnalyzeEntry(entry Entry) (*Termination, error) {
	start, err := p.Start(entry)
	if err != nil {
		return nil, err
	}
	return p.newAnalysis().start(start), nil
}

// analysis is the termination analysis of a pack's entries.
type analysis struct {
	pack    *Pack
	flow    *flow
	residue [][]residualEdge
	// done contains the results for the entry states that were already analysed. work is the bound of
	// the work for each further entry state.
	done map[string]*Termination
	work int
}

func (p *Pack) newAnalysis() *analysis {
	a := &analysis{pack: p, done: map[string]*Termination{}, work: maxWork}
	if w := p.Doc.Workflow; w != nil {
		a.flow = newFlow(w.States, p.XPawl())
		a.residue = a.flow.residualFlow()
		a.work = maxWork / (1 + len(p.stateBacked()))
	}
	return a
}

func (a *analysis) start(s Start) *Termination {
	if !s.Prompt {
		return a.state(s.State)
	}
	one := int64(1)
	return &Termination{Entry: s.State, Bounded: true, BoundedBy: []string{"acyclic"}, MaxVisits: &one, Exact: true,
		Cycle: []string{}, AlsoLimitedBy: a.pack.otherLimits()}
}

// state returns the analysis for runs that begin in a state. The result is a copy, so the caller may change it.
func (a *analysis) state(name string) *Termination {
	t := a.done[name]
	if t == nil {
		t = a.flow.terminate(a.flow.stateIndex(name), a.residue, a.work)
		a.wrapUp(t)
		t.Entry, t.AlsoLimitedBy = name, a.pack.otherLimits()
		// A pack's rule against loops without progress (no_progress) ends some runs earlier, so perhaps no run
		// reaches the computed bound.
		t.Exact = t.Exact && a.pack.XPawl().NoProgress == nil
		if b := a.pack.budget(); b != nil && b.MaxTotalVisits != nil {
			t.limit(*b.MaxTotalVisits)
		}
		a.done[name] = t
	}
	own := *t
	return &own
}

// terminate analyses an entry without regard to the budget of the whole run.
func (f *flow) terminate(entry int, residue [][]residualEdge, work int) *Termination {
	t := &Termination{Cycle: []string{}, BoundedBy: []string{}}
	within := f.markReachable(entry)
	start, evs := findCycle(residue, within)
	x, longest := f.explore(entry, work)
	switch {
	case x.cycle != noState:
		t.Exact = true
		t.CycleStart = f.states[x.path[x.cycle].state].name
		t.Lead, t.Cycle = events(x.path[:x.cycle]), events(x.path[x.cycle:])
	case !x.full:
		t.bound(longest, f.boundedBy(within))
		t.Exact = true
	case start == noState:
		t.bound(f.upperBound(residue, within), f.boundedBy(within))
	default:
		t.CycleStart, t.Cycle = f.states[start].name, evs
	}
	return t
}

func (t *Termination) bound(visits int64, by []string) {
	t.Bounded, t.MaxVisits, t.BoundedBy = true, &visits, by
}

// limit adds the bound max_total_visits, the visits that a whole run may make, to the analysis.
func (t *Termination) limit(total int64) {
	switch {
	case !t.Bounded:
		*t = Termination{Entry: t.Entry, AlsoLimitedBy: t.AlsoLimitedBy, Cycle: []string{}, Exact: t.Exact}
		t.bound(total, []string{"max_total_visits"})
	case total < *t.MaxVisits:
		t.bound(total, append(slices.Clone(t.BoundedBy), "max_total_visits"))
	}
}

// boundedBy returns the names of the pack's bounds that end the runs of a flow.
func (f *flow) boundedBy(within []bool) []string {
	if start, _ := findCycle(f.unboundedFlow(), within); start == noState {
		return []string{"acyclic"}
	}
	visits, iterations := false, false
	for i := range f.states {
		if !within[i] {
			continue
		}
		visits = visits || f.states[i].max > 0
		for _, e := range f.states[i].edges {
			iterations = iterations || e.max > 0
		}
	}
	var by []string
	if visits {
		by = append(by, "max_visits")
	}
	if iterations {
		by = append(by, "max_iterations")
	}
	return by
}

// otherLimits returns the names of the limits of a run that the analysis does not use.
func (p *Pack) otherLimits() []string {
	out := []string{"max_transitions"}
	x, b := p.XPawl(), p.budget()
	if b != nil && b.MaxWallTimeSec != nil {
		out = append(out, "max_wall_time_sec")
	}
	if b != nil && b.MaxToolCalls != nil {
		out = append(out, "max_tool_calls")
	}
	for name, set := range map[string]bool{
		"max_steps": x.MaxSteps != nil, "max_reframes": x.MaxReframes != nil,
		"max_tokens": x.MaxTokens != nil, "max_cost_usd": x.MaxCostUSD != nil, "no_progress": x.NoProgress != nil,
	} {
		if set {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
