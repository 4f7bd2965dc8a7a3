package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/assertion"
	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Trigger is the moment at which an eval runs.
type Trigger string

// These are the triggers of PromptPack RFC 0006 and of PromptKit.
const (
	// EveryTurn and SampleTurns evals judge a turn that has ended.
	EveryTurn   Trigger = "every_turn"
	SampleTurns Trigger = "sample_turns"
	// OnWorkflowStep evals judge the visit that a transition leaves.
	OnWorkflowStep Trigger = "on_workflow_step"
	// Evals with the triggers below judge the run at its end. A run counts as one session and as one conversation.
	OnSessionComplete      Trigger = "on_session_complete"
	OnConversationComplete Trigger = "on_conversation_complete"
	SampleSessions         Trigger = "sample_sessions"
)

var triggers = []Trigger{EveryTurn, SampleTurns, OnWorkflowStep, OnSessionComplete, OnConversationComplete, SampleSessions}

// AtEnd reports whether evals with the trigger judge the run at its end.
func (t Trigger) AtEnd() bool {
	return t == OnSessionComplete || t == OnConversationComplete || t == SampleSessions
}

// defaultSample is the percentage of a sampling trigger without sample_percentage.
const defaultSample = 5

// ScoredEval is an eval that the sidecar runs. Immutable.
type ScoredEval struct {
	// ID and Type are the id and the type of the eval in the pack. Prompt is the prompt that declares the eval; "" =
	// the pack.
	ID, Type, Prompt string
	Trigger          Trigger
	// Sample is the percentage of turns or runs that the eval judges. It is 100 if the trigger does not sample.
	Sample float64
	// Groups are the names of the groups to which the pack assigns the eval, at least one.
	Groups []string
	// Message is the pack's text for a result that did not pass; "" = none.
	Message   string
	When      EvalPrecondition
	Threshold *Threshold
	Metric    *Metric
	Check     *assertion.Check
}

// Threshold is the condition that a score must fulfil to pass. Without a threshold, the score must be 1.
type Threshold struct {
	Operator string   `json:"operator"`
	Value    *float64 `json:"value"`
}

// Passes reports whether a score passes. With a nil threshold, only the score 1 passes.
func (t *Threshold) Passes(score float64) bool {
	if t == nil {
		return score >= 1
	}
	return operators[t.Operator](score, *t.Value)
}

// String returns the threshold in the form of the pack, for example "gte 0.8". It returns "" if there is none.
func (t *Threshold) String() string {
	if t == nil {
		return ""
	}
	return t.Operator + " " + strconv.FormatFloat(*t.Value, 'g', -1, 64)
}

var operators = map[string]func(score, value float64) bool{
	"gte": func(s, v float64) bool { return s >= v },
	"gt":  func(s, v float64) bool { return s > v },
	"lte": func(s, v float64) bool { return s <= v },
	"lt":  func(s, v float64) bool { return s < v },
	"eq":  func(s, v float64) bool { return s == v },
}

// EvalPrecondition is the precondition of an eval: which tools must have been called in the turns that it judges. If the precondition is false, the
// eval has no result.
type EvalPrecondition struct {
	ToolCalled        string `json:"tool_called"`
	ToolCalledPattern string `json:"tool_called_pattern"`
	AnyToolCalled     bool   `json:"any_tool_called"`
	MinToolCalls      int    `json:"min_tool_calls"`

	pattern *cost.Pattern
}

// IsMet reports whether the precondition is true. called contains the number of calls of each tool.
func (w *EvalPrecondition) IsMet(called map[string]int) bool {
	total, matched := 0, false
	for tool, n := range called {
		total += n
		matched = matched || n > 0 && w.pattern != nil && w.pattern.MatchString(tool)
	}
	return (w.ToolCalled == "" || called[w.ToolCalled] > 0) && (w.pattern == nil || matched) &&
		(!w.AnyToolCalled || total > 0) && total >= w.MinToolCalls
}

// maxEvals limits the enabled evals of the pack, and those of each prompt. maxEndEvals limits the evals of a whole document that judge the
// end of a run.
const maxEvals, maxEndEvals = 100, 200

// Evals returns the evals with one of the triggers that judge the turns and the visits of a prompt: the evals of the pack that the prompt does
// not replace, and then its own.
func (p *Pack) Evals(prompt string, triggers ...Trigger) []ScoredEval {
	var out []ScoredEval
	for _, list := range [][]ScoredEval{p.turnEvals[""], p.turnEvals[prompt]} {
		for i := range list {
			if e := &list[i]; slices.Contains(triggers, e.Trigger) && (e.Prompt != "" || !p.declaresEval(prompt, e.ID)) {
				out = append(out, *e)
			}
		}
	}
	return out
}

// EndEvals returns the evals that judge the end of a run that used these prompts. It leaves out an eval of the pack that one of the prompts
// replaces. It sorts its argument in place.
func (p *Pack) EndEvals(prompts []string) []ScoredEval {
	slices.Sort(prompts)
	prompts = slices.Compact(prompts)
	var out []ScoredEval
	for _, e := range p.endEvals {
		replaced := func(prompt string) bool { return p.declaresEval(prompt, e.ID) }
		if e.Prompt == "" && !slices.ContainsFunc(prompts, replaced) || slices.Contains(prompts, e.Prompt) {
			out = append(out, e)
		}
	}
	return out
}

// HasEvals reports whether the sidecar runs any eval of the pack.
func (p *Pack) HasEvals() bool { return len(p.turnEvals) > 0 || len(p.endEvals) > 0 }

// maxEvalID bounds the id of an eval in its results, in bytes.
const maxEvalID = 200

// declaresEval reports whether a prompt declares an eval with this id. The id is compared after it is shortened to its maximum length.
func (p *Pack) declaresEval(prompt, id string) bool {
	of := p.Doc.Prompts[prompt]
	return of != nil && slices.ContainsFunc(of.Evals, func(e Eval) bool { return source.Clip(e.ID, maxEvalID) == id })
}

// evals checks a list of evals of the pack or of one prompt (PromptPack RFC 0006), and compiles the evals that the
// sidecar runs. prompt is "" for the pack.
func (c *checker) evals(prompt, at string, evals []Eval) {
	seen, enabled, patterns := map[string]bool{}, 0, cost.NewPatterns()
	for i := range evals {
		e, here := &evals[i], at+pointer(index(i))
		if seen[e.ID] && e.ID != "" {
			c.f.err("PP0006-1", here+"/id", "Rename one of them.", "the eval id %s is used twice in this scope", quote(e.ID))
		}
		seen[e.ID] = true
		if e.SamplePercentage != nil && e.Trigger != string(SampleTurns) && e.Trigger != string(SampleSessions) {
			c.f.warn("PP0006-2", here+"/sample_percentage", "", "sample_percentage has no effect with the trigger %s; it belongs to sample_turns and sample_sessions", quote(e.Trigger))
		}
		c.evalMetric(here+"/metric", e.Metric)
		if e.Enabled != nil && !*e.Enabled {
			continue
		}
		if enabled++; enabled > maxEvals {
			c.f.reportTightened(ruleEval, here, "Merge some of them, or switch some off by enabled: false.", "there are more than %d evals here", maxEvals)
			return
		}
		c.eval(prompt, here, e, patterns)
	}
}

// maxMetricName bounds the name of a metric, in bytes.
const maxMetricName = 200

// evalMetric checks what a metric declares.
func (c *checker) evalMetric(at string, m *Metric) {
	if m == nil {
		return
	}
	if m.Name != "" && !snakeCase.MatchString(m.Name) {
		c.f.warn("PP0006-3", at+"/name", "", "the metric name %s is not snake_case", quote(m.Name))
	}
	if r := m.Range; r != nil && r.Min != nil && r.Max != nil && *r.Min > *r.Max {
		c.f.err("PP0006-3", at+"/range/min", "", "min %v is more than max %v", *r.Min, *r.Max)
	}
	if len(m.Name) > maxMetricName {
		c.f.reportTightened(ruleEval, at+"/name", "Choose a shorter name.", "the metric name has %d bytes; at most %d", len(m.Name), maxMetricName)
	}
	if own := slices.IndexFunc(machine.ReservedMetrics, func(prefix string) bool { return strings.HasPrefix(m.Name, prefix) }); own >= 0 {
		c.f.reportTightened(ruleEval, at+"/name", "Choose another name, for example one that begins with the id of the pack.",
			"metric names that begin with %s belong to the sidecar", machine.ReservedMetrics[own])
	}
}

// eval compiles one enabled eval. If the sidecar does not run the eval, it adds a finding.
func (c *checker) eval(prompt, at string, e *Eval, patterns *cost.Patterns) {
	notRun := func(place, why string) {
		c.f.warn(ruleEvals, at+place, "Run it in your own program on the records of the runs; enabled: false switches it off.",
			"the eval %s is not run here: %s", quote(e.ID), why)
	}
	s := ScoredEval{ID: source.Clip(e.ID, maxEvalID), Type: e.Type, Prompt: prompt, Trigger: Trigger(e.Trigger), Sample: 100, Groups: groupsOf(e), Message: source.Clip(e.Message, 300), Metric: e.Metric}
	if !slices.Contains(triggers, s.Trigger) {
		notRun("/trigger", fmt.Sprintf("the trigger %s is not known; known: %s", quote(e.Trigger), joinTriggers(triggers)))
		return
	}
	if s.Trigger == SampleTurns || s.Trigger == SampleSessions {
		s.Sample = defaultSample
		if e.SamplePercentage != nil {
			s.Sample = *e.SamplePercentage
		}
	}
	if why := s.readThreshold(e.Threshold); why != "" {
		notRun("/threshold", why)
		return
	}
	if why := s.When.read(e.When); why != "" {
		notRun("/when", why)
		return
	}
	if pattern := s.When.ToolCalledPattern; pattern != "" {
		compiled, err := cost.Compile(pattern)
		if err != nil {
			c.f.reportTightened(ruleEval, at+"/when/tool_called_pattern", "", "the pattern of the eval %s is not a usable regular expression (RE2 syntax): %v", quote(e.ID), err)
			return
		}
		s.When.pattern = compiled
	}
	if s.Check = c.evalCheck(at, e, patterns, notRun); s.Check == nil {
		return
	}
	c.keepEval(at, &s)
}

// maxEvalApplications limits the applications of a JSON Schema in one check of an eval. One input can cause up to 400 of these checks. With
// this limit, all of them together take less than a second.
const maxEvalApplications = 1000

// evalCheck compiles the check of an eval. It returns nil if the sidecar does not run the eval.
func (c *checker) evalCheck(at string, e *Eval, patterns *cost.Patterns, notRun func(place, why string)) *assertion.Check {
	check, err := assertion.Compile(e.Type, e.Params, schemasWithin(maxEvalApplications, patterns))
	if err == nil {
		return check
	}
	switch place, hint, unusable := paramFault(e.Type, err); {
	case unusable:
		c.f.reportTightened(ruleEval, at+place, hint, "the eval %s cannot be used: %v", quote(e.ID), err)
	case place == "/type":
		notRun(place, "no program here runs the type "+quote(e.Type))
	default:
		notRun(place, err.Error())
	}
	return nil
}

// keepEval adds a compiled eval to the lists of the pack.
func (c *checker) keepEval(at string, s *ScoredEval) {
	p := c.p
	if !s.Trigger.AtEnd() {
		p.turnEvals[s.Prompt] = append(p.turnEvals[s.Prompt], *s)
		return
	}
	if len(p.endEvals) == maxEndEvals {
		c.f.reportTightened(ruleEval, at, "Merge some of them, or switch some off by enabled: false.", "more than %d evals of the pack judge the end of a run", maxEndEvals)
		return
	}
	p.endEvals = append(p.endEvals, *s)
}

// readThreshold reads a threshold. If the threshold cannot be used, it returns the reason.
func (s *ScoredEval) readThreshold(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	t := new(Threshold)
	if json.Unmarshal(raw, t) != nil || t.Value == nil || operators[t.Operator] == nil {
		return "a threshold needs a value, and an operator of gte, gt, lte, lt, eq"
	}
	s.Threshold = t
	return ""
}

// read reads a precondition. If the precondition cannot be used, it returns the reason.
func (w *EvalPrecondition) read(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(w); err != nil {
		return "of when, tool_called, tool_called_pattern, any_tool_called and min_tool_calls are known: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	return ""
}

// groupsOf returns the groups of an eval. The default groups are those that PromptKit gives to checks that need no model.
func groupsOf(e *Eval) []string {
	if len(e.Groups) == 0 {
		return []string{"default", "fast-running"}
	}
	var out []string
	for _, group := range e.Groups[:min(len(e.Groups), maxGroups)] {
		out = append(out, source.Clip(group, 100))
	}
	return out
}

// maxGroups limits the groups of an eval that its results list.
const maxGroups = 16

func joinTriggers(list []Trigger) string {
	var out []string
	for _, t := range list {
		out = append(out, string(t))
	}
	return strings.Join(out, ", ")
}
