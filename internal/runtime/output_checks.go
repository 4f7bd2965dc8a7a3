package runtime

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/assertion"
	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// validators returns the validators of the open turn's prompt. They check the commands with a model's answer, with the
// output of a completed turn, or with the event that ends a turn, so they apply to every kind of executor. Pieces of output
// (WriteOutput) are not checked.
func (t *execution) validators() []pack.EnforcedValidator {
	if t.state.Turn == nil {
		return nil
	}
	return t.program.Pack.Validators(t.program.Graph.States[t.state.Current].Prompt)
}

// violation returns the first validator that the turn violates. It returns nil if the turn violates none.
func violation(validators []pack.EnforcedValidator, turn *assertion.Turn) *machine.Violation {
	for i := range validators {
		v := &validators[i]
		hit := v.Check.Test(turn)
		if hit.Reason == "" {
			continue
		}
		if v.Message != "" {
			hit.Reason = v.Message + ": " + hit.Reason
		}
		return &machine.Violation{ID: v.ID, Type: v.Check.Type(), Place: hit.Place, Reason: hit.Reason}
	}
	return nil
}

// answerViolation returns the first validator that an answer of a model violates, or nil.
func (t *execution) answerViolation(cmd *machine.AnswerModel) *machine.Violation {
	validators := t.validators()
	if cmd.Answer == nil || len(validators) == 0 {
		return nil
	}
	turn := t.turnSoFar(&cmd.Usage)
	place := "answer of step " + strconv.FormatUint(uint64(cmd.Step), 10)
	addText(turn, place, cmd.Answer.Parts)
	if cmd.Answer.Refusal != "" {
		turn.Written = append(turn.Written, assertion.Text{Place: place, Text: cmd.Answer.Refusal})
	}
	for i := range cmd.Answer.Calls {
		call := &cmd.Answer.Calls[i]
		turn.Calls[call.Name]++
		turn.Written = appendTexts(turn.Written, place+", call of "+call.Name, call.Arguments+call.Broken)
	}
	if i := rules.FindStep(t.state.Steps, cmd.Step); i >= 0 && t.state.Steps[i].Deadline != 0 {
		asked := t.state.Steps[i].Deadline - int64(rules.ModelCalls(t.program.Graph).Timeout)
		turn.Latency = max(0, time.Duration(t.input.At-asked))
	}
	return violation(validators, turn)
}

// completeViolation returns the first validator that a turn with its output violates, or nil. If the output has no
// text, the last text of the assistant's messages counts as the output.
func (t *execution) completeViolation(cmd *machine.CompleteTurn) *machine.Violation {
	validators := t.validators()
	if len(validators) == 0 {
		return nil
	}
	return violation(validators, t.completedTurn(cmd))
}

// completedTurn returns the texts and calls of a turn that ends with its output, for validators and evals.
func (t *execution) completedTurn(cmd *machine.CompleteTurn) *assertion.Turn {
	turn := t.turnSoFar(&cmd.Usage)
	turn.Ended = true
	addText(turn, "output", cmd.Output)
	for i := len(cmd.Messages) - 1; i >= 0; i-- {
		m, place := &cmd.Messages[i], "message "+strconv.Itoa(i+1)
		switch {
		case m.Role != "assistant":
		case len(turn.Said) == 0:
			addText(turn, place, m.Parts)
		default:
			turn.Written = appendTexts(turn.Written, place, textOf(m.Parts))
		}
	}
	turn.Written = appendArtifacts(turn.Written, cmd.Artifacts)
	return turn
}

// emitViolation checks a turn that ends with an event. It returns the first validator that the turn violates, or nil.
func (t *execution) emitViolation(cmd *machine.EmitEvent) *machine.Violation {
	validators := t.validators()
	if cmd.Outside || len(validators) == 0 {
		return nil
	}
	return violation(validators, t.emittedTurn(cmd))
}

// emittedTurn returns the texts and calls of a turn that ends with an event, for validators and evals.
func (t *execution) emittedTurn(cmd *machine.EmitEvent) *assertion.Turn {
	turn := t.turnSoFar(&machine.Usage{})
	turn.Ended, turn.Written = true, appendArtifacts(nil, cmd.Artifacts)
	return turn
}

// turnSoFar returns what is known of the open turn before its output: its calls, and the consumption of the run
// including the given usage.
func (t *execution) turnSoFar(usage *machine.Usage) *assertion.Turn {
	s := t.state
	return &assertion.Turn{
		Calls: t.answeredCalls(machine.StepStatusOK), CostMicro: rules.AddCapped(s.CostMicro, usage.CostMicro),
		Tokens: rules.AddCapped(s.Tokens, rules.AddCapped(usage.InputTokens, usage.OutputTokens)),
	}
}

// answeredCalls counts, for each tool, the calls of the open turn that have one of the statuses.
func (t *execution) answeredCalls(statuses ...machine.StepStatus) map[string]int {
	calls := map[string]int{}
	for i := range t.state.Steps {
		s := &t.state.Steps[i]
		if s.Model == nil && s.About == nil && s.TurnSeq == t.state.Turn.Seq && slices.Contains(statuses, s.Status) {
			calls[s.Tool]++
		}
	}
	return calls
}

// addText adds the text of parts to the output of the turn. The parts together are one text. In addition each part is a
// text of its own, so that a forbidden word is also found within one part.
func addText(turn *assertion.Turn, place string, parts []machine.Part) {
	text := textOf(parts)
	if text == "" {
		return
	}
	turn.Said = append(turn.Said, assertion.Text{Place: place, Text: text})
	turn.Written = appendStrings(turn.Written, place, text)
	if len(parts) > 1 {
		for i := range parts {
			turn.Written = appendTexts(turn.Written, place, textOf(parts[i:i+1]))
		}
	}
}

// textOf returns the text and the JSON of parts as one text.
func textOf(parts []machine.Part) string {
	var b strings.Builder
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case machine.PartText:
			b.WriteString(p.Text)
		case machine.PartJSON:
			b.Write(p.Data)
		}
	}
	return b.String()
}

// appendArtifacts appends the values of the written artifacts that are text.
func appendArtifacts(out []assertion.Text, writes []machine.ArtifactWrite) []assertion.Text {
	for i := range writes {
		if w := &writes[i]; utf8.Valid(w.Value) {
			out = appendTexts(out, "artifact "+w.Name, string(w.Value))
		}
	}
	return out
}

// appendTexts appends a text and, if the text is JSON with escapes, the strings that it contains.
func appendTexts(out []assertion.Text, place, text string) []assertion.Text {
	if text == "" {
		return out
	}
	return appendStrings(append(out, assertion.Text{Place: place, Text: text}), place, text)
}

// appendStrings appends the decoded strings of a JSON text, because an escape in the JSON text could hide a forbidden
// word. A text without a backslash contains no escape, so nothing is appended for it.
func appendStrings(out []assertion.Text, place, text string) []assertion.Text {
	if !strings.Contains(text, `\`) {
		return out
	}
	value, err := strictjson.Value([]byte(text))
	if err != nil {
		return out
	}
	var b strings.Builder
	writeStrings(&b, value)
	return append(out, assertion.Text{Place: place + ", strings of the JSON value", Text: b.String()})
}

// writeStrings writes all strings and member names in a JSON value, one per line, for checks of words.
func writeStrings(b *strings.Builder, value any) {
	switch value := value.(type) {
	case string:
		b.WriteString(value)
		b.WriteByte('\n')
	case []any:
		for _, item := range value {
			writeStrings(b, item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			writeStrings(b, name)
			writeStrings(b, value[name])
		}
	}
}

// Evals judge the turn, the visit or the run that an input ends (ADR 0108). The engine computes the results after
// package rules has decided, and adds them to the input. So one commit stores the results together with the judged
// data, and a crash neither loses nor repeats them.

const (
	// maxEvalPages bounds the pages of records that are read for the evals of a visit or run, and maxEvalText the bytes
	// of their text. maxEvalPage bounds one page, in bytes of stored records.
	maxEvalPages = 64
	maxEvalText  = 1 << 20
	maxEvalPage  = 1 << 20
	// maxEvalWork bounds the work of the evals of one input, in units of [assertion.Check.Weight]. This amount takes
	// about 0.1 s.
	maxEvalWork = 256 << 20
	// maxExplanation bounds the explanation and the error of a result, in bytes.
	maxExplanation = 600
)

// evalSubject is the turn, visit or run that a group of evals (checks that the pack declares) judges.
type evalSubject struct {
	assertion.Turn
	// turn and visit are the seqs of the judged turn and visit. Both are 0 if the run is judged.
	turn, visit uint64
	// called counts the answered calls of each tool, including those answered with an error.
	called map[string]int
	// fault is the reason why no eval can run, or "". late is the reason why the duration of the turn is unknown, or "".
	fault, late string
}

// dueEvals runs the evals (checks that the pack declares) that the result makes due, and adds their results to the
// input. It reports whether it has added any.
func (t *execution) dueEvals(ctx context.Context, result *machine.Result) bool {
	if t.program.Pack == nil || !t.program.Pack.HasEvals() {
		return false
	}
	work := int64(maxEvalWork)
	if t.endsByEvent(result.State) {
		t.judgeTurn(ctx, result, &work)
	}
	for i := range result.Batch.Records {
		switch body := result.Batch.Records[i].Body.(type) {
		case *machine.TurnCompleted:
			t.judgeTurn(ctx, result, &work)
		case *machine.Transition:
			t.judgeVisit(ctx, result, body, &work)
		case *machine.Ended:
			t.judgeRun(ctx, result, &work)
		}
	}
	return len(t.input.Evals) > 0
}

// endsByEvent reports whether the input ends the open turn with an event. The state shows this, because no record does:
// the turn also ends if the event ends the run or begins a compensation.
func (t *execution) endsByEvent(after *machine.State) bool {
	cmd, ok := t.input.Command.(machine.EmitEvent)
	return ok && !cmd.Outside && cmd.Violation == nil && t.state.Turn != nil && (after.Turn == nil || after.Turn.Seq != t.state.Turn.Seq)
}

// sinceRecord returns the time from a record (then) to now, both in Unix nanoseconds. It is at least 0.
func sinceRecord(now, then int64) time.Duration { return time.Duration(max(now-then, 0)) }

// judgeTurn runs the evals of the turn that the input ends.
func (t *execution) judgeTurn(ctx context.Context, result *machine.Result, work *int64) {
	evals := t.evalsOf(pack.EveryTurn, pack.SampleTurns)
	if len(evals) == 0 || t.state.Turn == nil {
		return
	}
	of := &evalSubject{turn: t.state.Turn.Seq, called: t.answeredCalls(machine.StepStatusOK, machine.StepStatusError)}
	switch cmd := t.input.Command.(type) {
	case machine.CompleteTurn:
		of.Turn = *t.completedTurn(&cmd)
	case machine.EmitEvent:
		of.Turn = *t.emittedTurn(&cmd)
	default:
		return
	}
	if slices.ContainsFunc(evals, ofLatency) {
		opened, err := t.e.store.Entry(ctx, t.op.key.Namespace, t.op.key.ID, of.turn)
		if err != nil {
			of.late = "the record that opened the turn could not be read"
		}
		of.Latency = sinceRecord(result.State.At, opened.Input.At)
	}
	t.runEvals(evals, of, result, work)
}

// ofLatency reports whether an eval judges how long a turn took.
func ofLatency(e pack.ScoredEval) bool { return e.Type == "latency_budget" }

// judgeVisit runs the evals of the visit that a transition ends.
func (t *execution) judgeVisit(ctx context.Context, result *machine.Result, moved *machine.Transition, work *int64) {
	if t.state == nil || moved.From == "" {
		return
	}
	if evals := t.evalsOf(pack.OnWorkflowStep); len(evals) > 0 {
		of := t.saidSince(ctx, result, t.state.VisitSeq)
		of.visit = t.state.VisitSeq
		t.runEvals(evals, of, result, work)
	}
}

// judgeRun runs the evals of a run that the input ends.
func (t *execution) judgeRun(ctx context.Context, result *machine.Result, work *int64) {
	var prompts []string
	for _, visited := range result.State.Visits {
		if node := t.program.Graph.States[visited.State]; node != nil {
			prompts = append(prompts, node.Prompt)
		}
	}
	evals := t.program.Pack.EndEvals(prompts)
	if len(evals) > 0 {
		t.runEvals(evals, t.saidSince(ctx, result, 1), result, work)
	}
}

// evalsOf returns the evals with one of the given triggers that apply to the current state's prompt.
func (t *execution) evalsOf(triggers ...pack.Trigger) []pack.ScoredEval {
	return t.program.Pack.Evals(t.program.Graph.States[t.state.Current].Prompt, triggers...)
}

// runEvals runs a group of evals with the same judged data, and adds their results to the
// input. It leaves out the evals that are not in the sample or whose condition is not met.
func (t *execution) runEvals(evals []pack.ScoredEval, of *evalSubject, result *machine.Result, work *int64) {
	of.Ended, of.CostMicro, of.Tokens = true, result.State.CostMicro, result.State.Tokens
	size := int64(0)
	for _, list := range [][]assertion.Text{of.Said, of.Written, of.Earlier} {
		for i := range list {
			size += int64(len(list[i].Text))
		}
	}
	for i := range evals {
		e := &evals[i]
		if !sampled(e, result.State.RunID, of.turn) || of.fault == "" && !e.When.IsMet(of.called) {
			continue
		}
		r := machine.EvalResult{
			ID: e.ID, Type: e.Type, Prompt: e.Prompt, Trigger: string(e.Trigger), TurnSeq: of.turn, VisitSeq: of.visit, Groups: e.Groups,
			Metric: metricOf(e.Metric), Threshold: e.Threshold.String(),
		}
		cost := size * int64(e.Check.Weight())
		switch {
		case of.fault != "":
			r.Error = of.fault
		case of.late != "" && ofLatency(*e):
			r.Error = of.late
		case cost > *work:
			r.Error = fmt.Sprintf("the text is too large for this eval and those before it: %d bytes", size)
		default:
			*work -= cost
			test(e, &of.Turn, &r)
		}
		t.input.Evals = append(t.input.Evals, r)
	}
}

// test runs one eval. If its check panics, the result contains the error, and the input continues. A negative score means
// that the check could not judge. Its reason is then the error.
func test(e *pack.ScoredEval, turn *assertion.Turn, r *machine.EvalResult) {
	defer func() {
		if fault := recover(); fault != nil {
			r.Score, r.Passed, r.Explanation = 0, false, ""
			r.Error = source.Clip(fmt.Sprintf("the eval failed: %v", fault), maxExplanation)
		}
	}()
	hit, score := e.Check.Test(turn), 1.0
	if hit.Score < 0 {
		r.Error = source.Clip(hit.Reason, maxExplanation)
		return
	}
	if hit.Reason != "" {
		score = hit.Score
		r.Explanation = hit.Reason
		if hit.Place != "" {
			r.Explanation += " (" + hit.Place + ")"
		}
	}
	r.Score = int64(math.Round(min(max(score, 0), 1) * machine.ScoreFull))
	if r.Passed = e.Threshold.Passes(float64(r.Score) / machine.ScoreFull); !r.Passed && e.Message != "" {
		r.Explanation = strings.TrimSuffix(e.Message+": "+r.Explanation, ": ")
	}
	r.Explanation = source.Clip(r.Explanation, maxExplanation)
}

// sampled reports whether the eval is in the sample that judges this turn, or this run if turn is 0. PromptKit makes
// the same decision: the FNV-1a hash of the run's id and the turn, modulo 10 000, against the percentage.
func sampled(e *pack.ScoredEval, run string, turn uint64) bool {
	const full, perPercent = 10_000, 100
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendUint([]byte(run), turn, 10))
	return h.Sum64()%full < uint64(e.Sample*perPercent)
}

// metricOf returns the metric that an eval declares, in the form that is stored with its results.
func metricOf(m *pack.Metric) *machine.EvalMetric {
	if m == nil {
		return nil
	}
	out := &machine.EvalMetric{Name: m.Name, Kind: m.Type}
	if r := m.Range; r != nil && r.Min != nil && r.Max != nil {
		out.Ranged, out.Min, out.Max = true, millionths(*r.Min), millionths(*r.Max)
	}
	return out
}

// millionths converts a bound of a metric's range to millionths. Values that are too large are capped.
func millionths(v float64) int64 {
	const most = 1e12
	return int64(math.Round(min(max(v, -most), most) * machine.ScoreFull))
}

// saidSince collects the texts and calls of the run since the record `from`, for evals.
func (t *execution) saidSince(ctx context.Context, result *machine.Result, from uint64) *evalSubject {
	c := collector{subject: &evalSubject{called: map[string]int{}}, internal: map[uint32]bool{}}
	c.subject.Calls = map[string]int{}
	began := result.State.At
	pages := 0
	for next := from; t.state != nil && next <= t.state.Seq && c.text <= maxEvalText; pages++ {
		if pages == maxEvalPages {
			c.subject.fault = fmt.Sprintf("there are too many records to judge: more than %d pages", maxEvalPages)
			return c.subject
		}
		entries, err := t.e.store.Entries(ctx, t.op.key.Namespace, t.op.key.ID, next, machine.Page{Records: 500, Bytes: maxEvalPage})
		if err != nil || len(entries) == 0 {
			c.subject.fault = "the records could not be read"
			return c.subject
		}
		if next == from {
			began = entries[0].Input.At
		}
		for i := range entries {
			records := entries[i].Records
			if first := entries[i].First; first < from {
				records = records[from-first:]
			}
			c.add(records)
			next = entries[i].First + uint64(len(entries[i].Records))
		}
	}
	c.add(result.Batch.Records)
	if c.text > maxEvalText {
		c.subject.fault = fmt.Sprintf("there are more than %d bytes of text to judge", maxEvalText)
	}
	c.subject.Latency = sinceRecord(result.State.At, began)
	return c.subject
}

// collector collects texts and calls from records, for evals. The last output is in Said, and the outputs before it are
// in Earlier.
type collector struct {
	subject *evalSubject
	text    int
	// internal are the steps that the sidecar itself requested. Their calls are not counted.
	internal map[uint32]bool
}

// add adds the outputs and the answered tool calls in the records to the judged subject.
func (c *collector) add(records []machine.Record) {
	for i := range records {
		switch b := records[i].Body.(type) {
		case *machine.TurnCompleted:
			turn := assertion.Turn{}
			addText(&turn, "output of turn "+strconv.FormatUint(b.TurnSeq, 10), outputOf(b))
			if len(turn.Said) == 0 {
				continue
			}
			c.subject.Earlier = append(append(c.subject.Earlier, c.subject.Said...), c.subject.Written...)
			c.subject.Said, c.subject.Written = turn.Said, turn.Written
			for _, text := range slices.Concat(turn.Said, turn.Written) {
				c.text += len(text.Text)
			}
		case *machine.StepRequested:
			if b.About != nil {
				c.internal[b.Step] = true
			}
		case *machine.StepResolved:
			if b.Next != 0 || b.Kind == machine.KindModel || c.internal[b.Step] {
				continue
			}
			c.subject.called[b.Tool]++
			if b.OK {
				c.subject.Calls[b.Tool]++
			}
		}
	}
}

// outputOf returns the output of a completed turn or, if the output has no text, the last message of the assistant.
func outputOf(b *machine.TurnCompleted) []machine.Part {
	if textOf(b.Output) != "" {
		return b.Output
	}
	for i := len(b.Messages) - 1; i >= 0; i-- {
		if m := &b.Messages[i]; m.Role == "assistant" && textOf(m.Parts) != "" {
			return m.Parts
		}
	}
	return nil
}
