package runtime

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/assertion"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// validators returns the validators of the prompt whose turn is open. Every command of an executor that says something, or that ends the
// turn, is checked here, so the validators hold for every executor.
func (t *execution) validators() []pack.Enforced {
	if t.state.Turn == nil {
		return nil
	}
	return t.program.Pack.Validators(t.program.Graph.States[t.state.Current].Prompt)
}

// violation returns the first validator that the turn violates, or nil.
func violation(validators []pack.Enforced, turn *assertion.Turn) *machine.Violation {
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

// answerViolation checks an answer of a model.
func (t *execution) answerViolation(cmd *machine.AnswerModel) *machine.Violation {
	validators := t.validators()
	if cmd.Answer == nil || len(validators) == 0 {
		return nil
	}
	turn := t.turnSoFar(&cmd.Usage)
	place := "answer of step " + strconv.FormatUint(uint64(cmd.Step), 10)
	say(turn, place, cmd.Answer.Parts)
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

// completeViolation checks a turn that ends with its output. If the output has no text, the last text of the assistant's messages is what
// the turn says.
func (t *execution) completeViolation(cmd *machine.CompleteTurn) *machine.Violation {
	validators := t.validators()
	if len(validators) == 0 {
		return nil
	}
	turn := t.turnSoFar(&cmd.Usage)
	turn.Ended = true
	say(turn, "output", cmd.Output)
	for i := len(cmd.Messages) - 1; i >= 0; i-- {
		m, place := &cmd.Messages[i], "message "+strconv.Itoa(i+1)
		switch {
		case m.Role != "assistant":
		case len(turn.Said) == 0:
			say(turn, place, m.Parts)
		default:
			turn.Written = appendTexts(turn.Written, place, textOf(m.Parts))
		}
	}
	turn.Written = appendArtifacts(turn.Written, cmd.Artifacts)
	return violation(validators, turn)
}

// emitViolation checks a turn that ends with an event.
func (t *execution) emitViolation(cmd *machine.EmitEvent) *machine.Violation {
	validators := t.validators()
	if cmd.Outside || len(validators) == 0 {
		return nil
	}
	turn := t.turnSoFar(&machine.Usage{})
	turn.Ended, turn.Written = true, appendArtifacts(nil, cmd.Artifacts)
	return violation(validators, turn)
}

// turnSoFar returns what is known of the open turn: its calls, and the consumption of the run with that of the command.
func (t *execution) turnSoFar(usage *machine.Usage) *assertion.Turn {
	s := t.state
	turn := &assertion.Turn{
		Calls: map[string]int{}, CostMicro: rules.AddCapped(s.CostMicro, usage.CostMicro),
		Tokens: rules.AddCapped(s.Tokens, rules.AddCapped(usage.InputTokens, usage.OutputTokens)),
	}
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.Model == nil && p.About == nil && p.TurnSeq == s.Turn.Seq && p.Status == machine.StepStatusOK {
			turn.Calls[p.Tool]++
		}
	}
	return turn
}

// say adds the text of parts to what the turn says, if there is any. The parts count together and, for words that must not be said, each
// for itself.
func say(turn *assertion.Turn, place string, parts []machine.Part) {
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

// appendArtifacts appends the written artifacts that are text.
func appendArtifacts(out []assertion.Text, writes []machine.ArtifactWrite) []assertion.Text {
	for i := range writes {
		if w := &writes[i]; utf8.Valid(w.Value) {
			out = appendTexts(out, "artifact "+w.Name, string(w.Value))
		}
	}
	return out
}

// appendTexts appends a text and, if it is JSON, the strings in it.
func appendTexts(out []assertion.Text, place, text string) []assertion.Text {
	if text == "" {
		return out
	}
	return appendStrings(append(out, assertion.Text{Place: place, Text: text}), place, text)
}

// appendStrings appends the strings of a JSON text as one text. In the JSON text itself an escape could hide a word.
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
