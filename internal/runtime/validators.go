package runtime

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/pack/assertion"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// violation returns the first validator of the prompt that the turn violates, or nil. Every command of an executor that says something,
// or that ends the turn, is checked here, so the validators hold for every executor.
func (t *execution) violation(turn *assertion.Turn) *machine.Violation {
	node := t.program.Graph.States[t.state.Current]
	if node == nil || t.state.Turn == nil {
		return nil
	}
	for _, v := range t.program.Pack.Validators(node.Prompt) {
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

// guarded reports whether the prompt of the current state has validators.
func (t *execution) guarded() bool {
	node := t.program.Graph.States[t.state.Current]
	return node != nil && len(t.program.Pack.Validators(node.Prompt)) > 0
}

// answerViolation checks an answer of a model.
func (t *execution) answerViolation(cmd *machine.AnswerModel) *machine.Violation {
	if cmd.Answer == nil || !t.guarded() {
		return nil
	}
	turn := t.turnSoFar(&cmd.Usage)
	place := "answer of step " + strconv.FormatUint(uint64(cmd.Step), 10)
	turn.Said = textsOf(place, cmd.Answer.Parts)
	for i := range cmd.Answer.Calls {
		turn.Written = append(turn.Written, assertion.Text{
			Place: place + ", call of " + cmd.Answer.Calls[i].Name, Text: plainJSON([]byte(cmd.Answer.Calls[i].Arguments)) + cmd.Answer.Calls[i].Broken,
		})
	}
	if i := rules.FindStep(t.state.Steps, cmd.Step); i >= 0 && t.state.Steps[i].Deadline != 0 {
		asked := t.state.Steps[i].Deadline - int64(rules.ModelCalls(t.program.Graph).Timeout)
		turn.Latency = max(0, time.Duration(t.input.At-asked))
	}
	return t.violation(turn)
}

// completeViolation checks a turn that ends with its output.
func (t *execution) completeViolation(cmd *machine.CompleteTurn) *machine.Violation {
	if !t.guarded() {
		return nil
	}
	turn := t.turnSoFar(&cmd.Usage)
	turn.Ended = true
	turn.Said = textsOf("output", cmd.Output)
	for i := range cmd.Messages {
		if m := &cmd.Messages[i]; m.Role == "assistant" {
			said := textsOf("message "+strconv.Itoa(i+1), m.Parts)
			if len(cmd.Output) == 0 {
				turn.Said = append(turn.Said, said...)
			} else {
				turn.Written = append(turn.Written, said...)
			}
		}
	}
	turn.Written = append(turn.Written, t.artifactTexts(cmd.Artifacts)...)
	return t.violation(turn)
}

// emitViolation checks a turn that ends with an event.
func (t *execution) emitViolation(cmd *machine.EmitEvent) *machine.Violation {
	if cmd.Outside || !t.guarded() {
		return nil
	}
	turn := t.turnSoFar(&machine.Usage{})
	turn.Ended, turn.Written = true, t.artifactTexts(cmd.Artifacts)
	return t.violation(turn)
}

// turnSoFar returns what is known of the open turn: its calls, and the consumption of the run with that of the command.
func (t *execution) turnSoFar(usage *machine.Usage) *assertion.Turn {
	s := t.state
	turn := &assertion.Turn{
		Calls: map[string]int{}, CostMicro: rules.AddCapped(s.CostMicro, usage.CostMicro),
		Tokens: rules.AddCapped(s.Tokens, rules.AddCapped(usage.InputTokens, usage.OutputTokens)),
	}
	if s.Turn == nil {
		return turn
	}
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.Model == nil && p.About == nil && p.TurnSeq == s.Turn.Seq && p.Status == machine.StepStatusOK {
			turn.Calls[p.Tool]++
		}
	}
	return turn
}

// textsOf returns the texts of parts. JSON counts as its text.
func textsOf(place string, parts []machine.Part) []assertion.Text {
	var out []assertion.Text
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case machine.PartText:
			out = append(out, assertion.Text{Place: place, Text: p.Text})
		case machine.PartJSON:
			out = append(out, assertion.Text{Place: place, Text: plainJSON(p.Data)})
		}
	}
	return out
}

// artifactTexts returns the written artifacts that are text or JSON.
func (t *execution) artifactTexts(writes []machine.ArtifactWrite) []assertion.Text {
	var out []assertion.Text
	for i := range writes {
		w := &writes[i]
		switch kind := t.program.Graph.Artifacts[w.Name].Type; {
		case strings.HasPrefix(kind, "text/"):
			out = append(out, assertion.Text{Place: "artifact " + w.Name, Text: string(w.Value)})
		case strings.HasSuffix(kind, "json"):
			out = append(out, assertion.Text{Place: "artifact " + w.Name, Text: plainJSON(w.Value)})
		}
	}
	return out
}

// plainJSON returns JSON text without escapes of letters, which could hide a word. Text that is no JSON is returned as it is.
func plainJSON(data []byte) string {
	value, err := strictjson.Value(data)
	if err != nil {
		return string(data)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return string(data)
	}
	return strings.TrimSuffix(out.String(), "\n")
}
