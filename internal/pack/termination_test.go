package pack

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// simulated is a run that applies the rules of entering a state in the simplest way. The analysis is checked
// against it.
type simulated struct {
	states   map[string]*State
	limits   map[string]map[string]int64
	total    int64
	current  string
	visits   map[string]int64
	followed map[string]int64
	count    int64
}

func simulate(states map[string]*State, limits map[string]map[string]int64, total int64, entry string) *simulated {
	s := &simulated{states: states, limits: limits, total: total, visits: map[string]int64{}, followed: map[string]int64{}}
	s.enter("", "", entry)
	return s
}

// enter is the algorithm of the semantics, step by step; false ends the run.
func (s *simulated) enter(from, event, target string) bool {
	if s.total > 0 && s.count >= s.total {
		return false
	}
	refused := map[string]bool{}
	next, edge := target, from+"."+event
	if limit := s.limits[from][event]; limit > 0 && s.followed[edge] >= limit {
		refused[target] = true
		next = deref(s.states[from].OnMaxVisits)
	}
	for {
		if next == "" || refused[next] {
			return false
		}
		st := s.states[next]
		if st.MaxVisits == 0 || s.visits[next] < st.MaxVisits {
			break
		}
		refused[next] = true
		next = deref(st.OnMaxVisits)
	}
	if len(refused) == 0 {
		s.followed[edge]++
	}
	s.visits[next]++
	s.count++
	s.current = next
	return true
}

func (s *simulated) emit(event string) bool {
	st := s.states[s.current]
	target, ok := st.OnEvent[event]
	if !ok || st.Terminal {
		return false
	}
	return s.enter(s.current, event, target)
}

func (s *simulated) clone() *simulated {
	c := *s
	c.visits, c.followed = map[string]int64{}, map[string]int64{}
	maps.Copy(c.visits, s.visits)
	maps.Copy(c.followed, s.followed)
	return &c
}

// longest returns the most visits that any run makes, by trying every event. It returns -1 if a run makes more
// than most.
func (s *simulated) longest(most int64) int64 {
	if s.count > most {
		return -1
	}
	best := s.count
	for event := range s.states[s.current].OnEvent {
		next := s.clone()
		if !next.emit(event) {
			continue
		}
		n := next.longest(most)
		if n < 0 {
			return -1
		}
		best = max(best, n)
	}
	return best
}

type graphCase struct {
	states map[string]*State
	limits map[string]map[string]int64
	total  int64
}

// drawGraph makes a small random workflow.
func drawGraph(t *rapid.T) graphCase {
	n := rapid.IntRange(1, 4).Draw(t, "states")
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	pick := rapid.Custom(func(t *rapid.T) string { return name(rapid.IntRange(0, n-1).Draw(t, "to")) })
	g := graphCase{states: map[string]*State{}, limits: map[string]map[string]int64{}}
	for i := range n {
		s := &State{OnEvent: map[string]string{}, Terminal: rapid.IntRange(0, 5).Draw(t, "terminal") == 0}
		for e := range rapid.IntRange(0, 2).Draw(t, "events") {
			event := fmt.Sprintf("E%d", e)
			s.OnEvent[event] = pick.Draw(t, "target")
			if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
				if g.limits[name(i)] == nil {
					g.limits[name(i)] = map[string]int64{}
				}
				g.limits[name(i)][event] = int64(rapid.IntRange(1, 2).Draw(t, "limit"))
			}
		}
		if rapid.Bool().Draw(t, "guarded") {
			s.MaxVisits = int64(rapid.IntRange(1, 3).Draw(t, "max"))
		}
		if rapid.Bool().Draw(t, "forced") {
			to := pick.Draw(t, "exit")
			s.OnMaxVisits = &to
		}
		g.states[name(i)] = s
	}
	if rapid.IntRange(0, 3).Draw(t, "budget") == 0 {
		g.total = int64(rapid.IntRange(1, 6).Draw(t, "total"))
	}
	return g
}

func (g graphCase) analyse(work int) *Termination {
	f := newFlow(g.states, &XPawl{MaxIterations: g.limits})
	t := f.terminate(f.stateIndex("s0"), f.residualFlow(), work)
	if g.total > 0 {
		t.limit(g.total)
	}
	return t
}

// TestTerminationAgainstSimulation: an exact bound is reached and never passed;
// a cycle can be pumped.
func TestTerminationAgainstSimulation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		an := g.analyse(maxWork)
		run := simulate(g.states, g.limits, g.total, "s0")
		if an.Bounded {
			if *an.MaxVisits > 14 {
				return // too many runs to try them all
			}
			if got := run.longest(*an.MaxVisits); got != *an.MaxVisits || !an.Exact {
				t.Fatalf("bound %d (exact %v), simulated %d", *an.MaxVisits, an.Exact, got)
			}
			return
		}
		if len(an.Cycle) == 0 || !an.Exact || an.MaxVisits != nil {
			t.Fatalf("not bounded, but %+v", an)
		}
		pump(t, run, an)
	})
}

// pump follows the lead and then the cycle many times.
func pump(t *rapid.T, run *simulated, an *Termination) {
	for _, event := range an.Lead {
		if !run.emit(event) {
			t.Fatalf("the lead %v stops at %s", an.Lead, event)
		}
	}
	for range 50 {
		if run.current != an.CycleStart {
			t.Fatalf("in %s, the cycle begins in %s", run.current, an.CycleStart)
		}
		for _, event := range an.Cycle {
			if !run.emit(event) {
				t.Fatalf("the cycle %v stops at %s", an.Cycle, event)
			}
		}
	}
}

// TestTerminationWithoutSearch: if the analysis may not search, it uses the residue alone. It may then be less
// exact, but it is never wrong.
func TestTerminationWithoutSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		g.total = 0
		exact, rough := g.analyse(maxWork), g.analyse(0)
		if rough.Exact {
			t.Fatalf("claims to be exact: %+v", rough)
		}
		if rough.Bounded && (!exact.Bounded || *rough.MaxVisits < *exact.MaxVisits) {
			t.Fatalf("bound %v, exact %+v", *rough.MaxVisits, exact)
		}
		if !rough.Bounded && len(rough.Cycle) == 0 {
			t.Fatal("neither a bound nor a cycle")
		}
	})
}

func TestAnalyzeExamples(t *testing.T) {
	t.Parallel()
	type want struct {
		bounded bool
		visits  int64
		by      string
		also    string
	}
	const time = "max_tool_calls max_transitions max_wall_time_sec"
	for name, c := range map[string]want{
		"rfc0005-1-simple-agent.json":       {true, 2, "acyclic", "max_transitions"},
		"rfc0005-2-multi-phase-agent.yaml":  {false, 0, "", "max_transitions"},
		"rfc0005-3-orchestrated-agent.json": {true, 2, "acyclic", "max_transitions"},
		"rfc0009-1-codegen-agent.yaml":      {true, 30, "max_total_visits", time},
		"rfc0009-2-data-explorer.yaml":      {true, 25, "max_visits", time},
		"rfc0009-3-self-correcting.json":    {true, 4, "max_visits", "max_transitions"},
		"rfc0009-4-ops-remediation.yaml":    {true, 20, "max_total_visits", time},
		"rfc0011-1-security-review.yaml":    {true, 40, "max_visits", "max_transitions"},
	} {
		an := mustLoad(t, examples(t)[name]).Analyze()
		if an.Bounded != c.bounded || !an.Exact || strings.Join(an.BoundedBy, " ") != c.by || strings.Join(an.AlsoLimitedBy, " ") != c.also {
			t.Errorf("%s: %+v", name, an)
		}
		if c.bounded != (an.MaxVisits != nil) || c.bounded && *an.MaxVisits != c.visits || c.bounded != (len(an.Cycle) == 0) {
			t.Errorf("%s: %+v", name, an)
		}
	}
	if an := mustLoad(t, examples(t)["rfc0007-1-research-team.yaml"]).Analyze(); an != nil {
		t.Errorf("without a workflow: %+v", an)
	}
}

// TestCodegenWithoutBudget: the guards of the first example in RFC 0009 do not bound it. When the state
// implement is used up, it leads to the unguarded state review, which leads back to it.
func TestCodegenWithoutBudget(t *testing.T) {
	t.Parallel()
	src := strings.Replace(string(examples(t)["rfc0009-1-codegen-agent.yaml"]), "max_total_visits: 30", "max_tool_calls: 200", 1)
	src = strings.Replace(src, "      max_tool_calls: 200\n      max_tool_calls: 200\n", "      max_tool_calls: 200\n", 1)
	an := mustLoad(t, []byte(src)).Analyze()
	if an.Bounded || !an.Exact || an.CycleStart != "review" || !slices.Equal(an.Cycle, []string{"ChangesNeeded"}) || len(an.Lead) < 10 {
		t.Errorf("%+v", an)
	}
}

func TestAnalyzeAgents(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, examples(t)["rfc0011-1-security-review.yaml"])
	an := p.Analyze()
	if len(an.Agents) != 2 || an.Agents[0].Entry != "agent:analyst" || *an.Agents[0].MaxVisits != 1 ||
		an.Agents[1].Entry != "agent:triage" || *an.Agents[1].MaxVisits != 40 {
		t.Errorf("%+v", an.Agents)
	}
	done, err := p.AnalyzeEntry(Entry{State: "done"})
	if err != nil || *done.MaxVisits != 1 || !slices.Equal(done.BoundedBy, []string{"acyclic"}) {
		t.Errorf("%+v %v", done, err)
	}
	own, err := mustLoad(t, examples(t)["rfc0007-1-research-team.yaml"]).AnalyzeEntry(Entry{Agent: "analyst"})
	if err != nil || !own.Bounded || *own.MaxVisits != 1 {
		t.Errorf("%+v %v", own, err)
	}
}

// TestBudgetBelowGuards: the smaller of the two is the bound, and it is reached.
func TestBudgetBelowGuards(t *testing.T) {
	t.Parallel()
	an := mustLoad(t, changedPack(t, "workflow.engine.budget.max_total_visits = 3")).Analyze()
	if !an.Bounded || *an.MaxVisits != 3 || !slices.Equal(an.BoundedBy, []string{"max_visits", "max_total_visits"}) {
		t.Errorf("%+v", an)
	}
}

// TestLargeFlows: a flow with more configurations than are searched still gets a proven bound, or the answer
// that no bound is shown.
func TestLargeFlows(t *testing.T) {
	t.Parallel()
	states := map[string]*State{}
	for i := range 40 {
		s := &State{MaxVisits: 100, OnEvent: map[string]string{}}
		for j := range 40 {
			s.OnEvent[fmt.Sprintf("E%d", j)] = fmt.Sprintf("s%d", j)
		}
		states[fmt.Sprintf("s%d", i)] = s
	}
	an := graphCase{states: states}.analyse(maxWork)
	if !an.Bounded || an.Exact || *an.MaxVisits < 4000 || *an.MaxVisits > 20_000 {
		t.Errorf("%+v %d", an, *an.MaxVisits)
	}
	exit := "free"
	states["s0"].OnMaxVisits = &exit
	states["free"] = &State{OnEvent: map[string]string{"Back": "s0"}}
	if an := (graphCase{states: states}).analyse(1000); an.Bounded || an.Exact || an.CycleStart != "free" || !slices.Equal(an.Cycle, []string{"Back"}) {
		t.Errorf("%+v", an)
	}
	if got := mulSat(addSat(math.MaxInt64, 1), 3); got != math.MaxInt64 {
		t.Errorf("saturation: %d", got)
	}
}

// TestTerminationNoProgress: a loop that repeats itself may take a forced exit before its guard is used up.
// The bound counts this way too, and the analysis does not say that the bound is reached.
func TestTerminationNoProgress(t *testing.T) {
	t.Parallel()
	way := "ask"
	states := map[string]*State{
		"a":   {OnEvent: map[string]string{"Go": "b"}, OnMaxVisits: &way},
		"b":   {OnEvent: map[string]string{"Again": "a"}, MaxVisits: 3},
		"ask": {OnEvent: map[string]string{"Resume": "b"}},
	}
	for _, tt := range []struct {
		rule  *NoProgress
		most  int64
		exact bool
	}{
		{nil, 7, true},
		{&NoProgress{Window: 2}, 7, false},
	} {
		p := &Pack{Doc: &Document{Workflow: &Workflow{Entry: "a", States: states, Engine: &Engine{XPawl: &XPawl{NoProgress: tt.rule}}}}}
		an := p.newAnalysis().state("a")
		if !an.Bounded || *an.MaxVisits != tt.most || an.Exact != tt.exact || slices.Contains(an.AlsoLimitedBy, "no_progress") != (tt.rule != nil) {
			t.Errorf("%+v: %+v, %d visits", tt.rule, an, *an.MaxVisits)
		}
	}
	exit := "c"
	states = map[string]*State{"a": {OnEvent: map[string]string{"Go": "b"}}, "b": {OnMaxVisits: &exit, Terminal: true}, "c": {OnEvent: map[string]string{"On": "c"}}}
	for i, rule := range []*NoProgress{nil, {Window: 2}} {
		p := &Pack{Doc: &Document{Workflow: &Workflow{Entry: "a", States: states, Engine: &Engine{XPawl: &XPawl{NoProgress: rule}}}}}
		if an := p.newAnalysis().state("a"); an.Bounded != (i == 0) {
			t.Errorf("%+v: %+v", rule, an)
		}
	}
}
