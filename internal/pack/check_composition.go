package pack

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// reservedNames are the names of tools that the reference runtime offers in every state.
var reservedNames = []string{"workflow__set_artifact", "workflow__transition"}

// compositionState checks a state that a composition orchestrates (PromptPack RFC 0010).
func (c *checker) compositionState(name string, s *State, at func(...string) string) {
	if s.PromptTask != "" {
		c.f.warn("PP0010-3", at("prompt_task"), "Remove it.", "prompt_task is not used: the state %s is orchestrated by a composition", quote(name))
	}
	switch {
	case s.Composition == "":
		c.f.err("PP0010-2", at(), "Add composition.", "the state %s has orchestration composition but names none", quote(name))
	case c.doc.Compositions[s.Composition] == nil:
		c.f.err("PP0010-4", at("composition"), "", "the composition %s does not exist; compositions: %s", quote(s.Composition), c.compositionNames())
	}
}

// compositions checks every composition, including compositions that no state uses.
func (c *checker) compositions() {
	used := map[string]bool{}
	if c.doc.Workflow != nil {
		for _, s := range c.doc.Workflow.States {
			used[s.Composition] = true
		}
	}
	for _, name := range keys(c.doc.Compositions) {
		at := pointer("compositions", name)
		if slices.Contains(reservedNames, name) {
			c.f.err("PP0010-1", at, "Rename it.", "the name %s is reserved; reserved: %s", quote(name), names(reservedNames))
		}
		if !used[name] {
			c.f.warn("PP0010-4", at, "Remove it, or name it in a state.", "no state uses the composition %s", quote(name))
		}
		newComposing(c, at, c.doc.Compositions[name]).check()
	}
}

// composing is the state of the check of one composition.
type composing struct {
	*checker
	at          string
	composition *Composition
	// order maps the id of each step, including nested steps, to its position in the document. pointers
	// contains the JSON pointer of each step.
	order    map[string]int
	pointers []string
	// targets are the steps to which a branch leads.
	targets map[string]bool
	evalIDs map[string]bool
}

func newComposing(c *checker, at string, in *Composition) *composing {
	w := &composing{checker: c, at: at, composition: in, order: map[string]int{}, targets: map[string]bool{}, evalIDs: map[string]bool{}}
	for i := range c.doc.Evals {
		w.evalIDs[c.doc.Evals[i].ID] = true
	}
	for i := range in.Steps {
		w.collect(at+pointer("steps", index(i)), &in.Steps[i])
	}
	return w
}

// collect assigns positions to a step and its nested steps. It reports an id that is used twice, and records the targets of branches.
func (w *composing) collect(at string, s *Step) {
	if _, twice := w.order[s.ID]; twice {
		w.f.err("PP0010-5", at+"/id", "Rename one of them.", "the step id %s is used twice in this composition", quote(s.ID))
	} else {
		w.order[s.ID] = len(w.order)
		w.pointers = append(w.pointers, at)
	}
	w.targets[s.Then], w.targets[s.Else] = true, true
	for i := range s.Branches {
		w.collect(at+pointer("branches", index(i)), &s.Branches[i])
	}
}

func (w *composing) check() {
	for i := range w.composition.Steps {
		w.step(w.at+pointer("steps", index(i)), &w.composition.Steps[i])
		w.join(i)
	}
	if out := w.composition.Output; out != "" {
		w.stepRef(w.at+"/output", out)
	}
	w.acyclic()
}

var vendorKind = regexp.MustCompile(`^[a-z][a-z0-9_-]*\.[a-z][a-z0-9_.-]*$`)

// step reports the faults of one step of a composition: an unknown kind, and names that do not exist.
func (w *composing) step(at string, s *Step) {
	switch s.Kind {
	case "prompt", "agent":
		if s.PromptTask != "" && w.doc.Prompts[s.PromptTask] == nil {
			w.f.err("PP0010-7", at+"/prompt_task", "", "the prompt_task %s is not a prompt; prompts: %s", quote(s.PromptTask), w.promptNames())
		}
	case "tool":
		w.stepTool(at+"/tool", s.Tool)
	case "branch":
		w.stepRef(at+"/then", s.Then)
		if s.Else != "" {
			w.stepRef(at+"/else", s.Else)
		}
	case "parallel":
		if r := s.Reduce; r != nil && r.Strategy != "" && !slices.Contains([]string{"append", "replace", "barrier"}, r.Strategy) {
			w.f.warn("PP0010-13", at+"/reduce/strategy", "", "the strategy %s is not one of append, replace, barrier", quote(r.Strategy))
		}
	case "":
	default:
		if !vendorKind.MatchString(s.Kind) {
			w.f.err(ruleStepKind, at+"/kind", "", "the step kind %s is not known; allowed: prompt, agent, tool, branch, parallel, or a vendor's own like acme.judge", quote(s.Kind))
		}
	}
	w.stepRefs(at, s)
	for i := range s.Branches {
		w.step(at+pointer("branches", index(i)), &s.Branches[i])
	}
}

// stepRefs checks the references in a step.
func (w *composing) stepRefs(at string, s *Step) {
	for i, tool := range s.Tools {
		w.stepTool(at+pointer("tools", index(i)), tool)
	}
	if s.Termination != nil && s.Termination.ToolCalled != "" {
		w.stepTool(at+"/termination/tool_called", s.Termination.ToolCalled)
	}
	for i, dep := range s.DependsOn {
		w.stepRef(at+pointer("depends_on", index(i)), dep)
	}
	for i, id := range s.Modifiers.Eval {
		if !w.evalIDs[id] {
			w.f.err("PP0010-10", at+pointer("modifiers", "eval", index(i)), "", "the eval %s is not an eval of the pack", quote(id))
		}
	}
	for field, raw := range map[string]json.RawMessage{"input": s.Input, "args": s.Args, "predicate": s.Predicate} {
		w.references(at+"/"+field, s.ID, raw)
	}
}

func (w *composing) stepTool(at, tool string) {
	if tool != "" && w.doc.Tools[tool] == nil {
		w.f.err("PP0010-8", at, "Declare it under tools.", "the tool %s is not declared; the pack has: %s", quote(tool), w.toolNames())
	}
}

func (w *composing) stepRef(at, id string) {
	if _, ok := w.order[id]; id != "" && !ok {
		w.f.err("PP0010-9", at, "", "%s is not a step of this composition", quote(id))
	}
}

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

// references checks the ${…} references in a value of a step. Each must begin with input, or with the id of an earlier step and .output.
func (w *composing) references(at, step string, raw json.RawMessage) {
	for _, m := range reference.FindAllStringSubmatch(string(raw), -1) {
		root, rest, _ := strings.Cut(m[1], ".")
		if root == "input" {
			continue
		}
		field, _, _ := strings.Cut(rest, ".")
		place, known := w.order[root]
		switch {
		case !known:
			w.f.err("PP0010-11", at, "References begin with input or with the id of an earlier step.", "the reference %s begins with %s, which is no step", quote(m[0]), quote(root))
		case place >= w.order[step]:
			w.f.err("PP0010-11", at, "", "the reference %s uses the step %s, which does not come before %s", quote(m[0]), quote(root), quote(step))
		case field != "output":
			w.f.err("PP0010-11", at, "Write ${step.output.field}.", "the reference %s names %s; a step has only output", quote(m[0]), quote(field))
		}
	}
}

// join reports a step without depends_on after a branch, a parallel block or a target of a branch. It is then not declared which of the
// branches the step waits for.
func (w *composing) join(i int) {
	s := &w.composition.Steps[i]
	if i == 0 || len(s.DependsOn) > 0 || w.targets[s.ID] {
		return
	}
	prev := &w.composition.Steps[i-1]
	if prev.Kind == "branch" || prev.Kind == "parallel" || w.targets[prev.ID] {
		w.f.warn("PP0010-9", w.at+pointer("steps", index(i)), "Add depends_on.", "the step %s follows a branch or parallel step without saying what it waits for", quote(s.ID))
	}
}

// acyclic checks that the order of the steps, including nested steps, has no cycle. depends_on, branches and nesting determine the order.
// A step without depends_on comes after the step before it.
func (w *composing) acyclic() {
	o := order{composing: w, graph: make([][]residualEdge, 2*len(w.order))}
	steps := w.composition.Steps
	for i := range steps {
		if i > 0 && len(steps[i].DependsOn) == 0 {
			o.addOrder(steps[i-1].ID, steps[i].ID)
		}
		o.step(&steps[i])
	}
	start, ids := findCycle(o.graph, slices.Repeat([]bool{true}, len(o.graph)))
	if start == noState {
		return
	}
	// A cycle can contain two edges of one step in a row. start is a node, and start/2 is the position of its step.
	ids = slices.Compact(ids)
	w.f.reportTightened("PP0010-15", w.pointers[start/2], "Loops belong into the workflow's states.", "the steps form a cycle: %s", names(append(ids, ids[0])))
}

// order is a graph of the order of steps in a composition. The start of the step at position n is the
// node 2n, and its end is the node 2n+1. Nested steps are between these nodes.
type order struct {
	*composing
	graph [][]residualEdge
}

// step adds the known order of a step and of the steps nested in it.
func (o *order) step(s *Step) {
	own := 2 * o.order[s.ID]
	o.edge(s.ID, own, own+1)
	for _, dep := range s.DependsOn {
		o.addOrder(dep, s.ID)
	}
	o.addOrder(s.ID, s.Then)
	o.addOrder(s.ID, s.Else)
	for i := range s.Branches {
		branch := &s.Branches[i]
		inner := 2 * o.order[branch.ID]
		o.edge(s.ID, own, inner)
		o.edge(branch.ID, inner+1, own+1)
		o.step(branch)
	}
}

// addOrder records that the step with the id `then` begins only after the step with the id `first` has
// ended.
func (o *order) addOrder(first, then string) {
	i, known := o.order[first]
	j, also := o.order[then]
	if known && also {
		o.edge(first, 2*i+1, 2*j)
	}
}

func (o *order) edge(id string, from, to int) {
	o.graph[from] = append(o.graph[from], residualEdge{event: id, to: to})
}
