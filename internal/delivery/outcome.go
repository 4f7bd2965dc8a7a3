package delivery

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants limit an agent's result and its error texts, in bytes.
const (
	maxResult = 1 << 20
	// These are the error codes for an agent's answer that is too large or breaks the A2A protocol.
	resultTooLarge = "AGENT_RESULT_TOO_LARGE"
	brokeProtocol  = "AGENT_PROTOCOL"
	maxCode        = 128
	maxMessage     = 16 << 10
)

// result is the JSON with which the step of a delegation is answered. It contains what the agent's task
// has produced (semantics section 10).
type result struct {
	Status    string                     `json:"status"`
	Reason    string                     `json:"reason,omitempty"`
	Output    json.RawMessage            `json:"output,omitempty"`
	Artifacts map[string]json.RawMessage `json:"artifacts,omitempty"`
	TaskID    string                     `json:"task_id,omitempty"`
	CardURL   string                     `json:"card_url,omitempty"`
}

// outcomeOf returns the outcome of the step after the agent's task has ended. A failure that the agent
// reports may be retried. An exhausted budget, an escalation or a cancellation would occur again, so it
// is final.
//
// A step may have a business key, which makes its effect happen once. If the task was not successful
// and the agent may have had effects, the outcome is then unknown. So the key becomes free again only
// if the agent had no effect.
func outcomeOf(task machine.AgentTask, card string, keyed bool) machine.Outcome {
	outcome := endOf(task, card)
	outcome.Usage, outcome.Metered = task.Usage, task.Metered
	outcome.Unknown = outcome.Unknown || keyed && !outcome.OK && !didNothing(&task)
	return outcome
}

// didNothing reports whether the agent rejected the work before it called a tool.
func didNothing(task *machine.AgentTask) bool {
	return task.State == machine.AgentRejected && task.Usage.ToolCalls == 0
}

// assumedUsage returns the usage that an agent's task reports. If the usage is complete (Metered) except for a figure
// that the agent did not report, assumedUsage uses the amount that the step may consume at most (lease).
func assumedUsage(task *machine.AgentTask, lease machine.Amount) machine.Usage {
	u := task.Usage
	if !task.Metered {
		return u
	}
	if task.Untold&machine.FigureTokens != 0 && lease.Tokens > 0 {
		u.InputTokens = max(u.InputTokens, lease.Tokens-u.OutputTokens)
	}
	if task.Untold&machine.FigureCost != 0 {
		u.CostMicro = lease.CostMicro
	}
	if task.Untold&machine.FigureToolCalls != 0 {
		u.ToolCalls = int(lease.ToolCalls)
	}
	return u
}

// endOf returns the outcome of a step from the ended task of its agent. card is the URL of the agent's card.
func endOf(task machine.AgentTask, card string) machine.Outcome {
	if task.State != machine.AgentCompleted {
		return unsuccessful(task)
	}
	r := result{
		Status: cmp.Or(task.Status, "COMPLETED"), Reason: cmp.Or(task.Reason, "completed"), TaskID: task.ID, CardURL: card,
		Output: valueOf(answerIn(&task)), Artifacts: artifactsOf(task.Artifacts),
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return doneOutcome(brokeProtocol, err.Error())
	}
	if len(raw) > maxResult {
		return doneOutcome(resultTooLarge, fmt.Sprintf("the agent's result has %d bytes, at most %d are taken; let it store it elsewhere and name it", len(raw), maxResult))
	}
	return machine.Outcome{OK: true, Result: raw}
}

// answerIn returns the parts that are the result of a task: its output if there is one, otherwise the
// message of its status, otherwise its only artifact.
func answerIn(task *machine.AgentTask) []machine.Part {
	switch {
	case len(task.Output) > 0:
		return task.Output
	case len(task.Message) > 0:
		return task.Message
	case len(task.Artifacts) == 1:
		return task.Artifacts[0].Parts
	}
	return nil
}

// artifactsOf returns the artifacts by name. If a name occurs more than once, artifactsOf appends the
// artifact's id or a number to it.
func artifactsOf(artifacts []machine.AgentArtifact) map[string]json.RawMessage {
	if len(artifacts) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(artifacts))
	for _, a := range artifacts {
		name := a.Name
		if _, taken := out[name]; taken && a.ID != "" {
			name = a.Name + "#" + a.ID
		}
		for n := 2; ; n++ {
			if _, taken := out[name]; !taken {
				break
			}
			name = fmt.Sprintf("%s#%d", a.Name, n)
		}
		out[name] = valueOf(a.Parts)
	}
	return out
}

// unsuccessful returns the error of a step whose agent's task did not complete. The error is final if
// the task was cancelled, or if its run ended with another status than FAILED.
func unsuccessful(task machine.AgentTask) machine.Outcome {
	code := task.Reason
	final := task.State == machine.AgentCancelled
	switch task.Status {
	case "", "FAILED":
	default:
		final = true
	}
	if code == "" {
		code = map[machine.AgentState]string{
			machine.AgentFailed: "failed", machine.AgentRejected: "rejected", machine.AgentCancelled: "cancelled",
		}[task.State]
	}
	message := textOf(task.Message)
	if message == "" {
		message = "task " + task.ID + " ended without a word"
	}
	return failure(code, message, final)
}

func failure(code, message string, final bool) machine.Outcome {
	return machine.Outcome{Error: machine.Fault{Code: clip(code, maxCode), Message: clip(message, maxMessage)}, Final: final}
}

// unknownOutcome returns the outcome of work when it is not known whether the agent did it.
func unknownOutcome(code, message string) machine.Outcome {
	outcome := failure(code, message, false)
	outcome.Unknown = true
	return outcome
}

// doneOutcome returns the outcome of a step if the agent has begun or done the work, but its result cannot be
// used. The step is not retried.
func doneOutcome(code, message string) machine.Outcome {
	outcome := unknownOutcome(code, message)
	outcome.Final = true
	return outcome
}

// clip shortens a text to at most `most` bytes. It cuts between two characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

// valueOf converts the parts of a message to one JSON value. Text becomes a string, a single JSON part
// is used unchanged, and all other parts become a list of objects.
func valueOf(parts []machine.Part) json.RawMessage {
	switch {
	case len(parts) == 0:
		return nil
	case len(parts) == 1 && parts[0].Kind == machine.PartJSON:
		return parts[0].Data
	case allText(parts):
		// Appended chunks are one text (S§4.2.2).
		var text strings.Builder
		for i := range parts {
			text.WriteString(parts[i].Text)
		}
		raw, _ := json.Marshal(text.String())
		return raw
	}
	list := make([]part, len(parts))
	for i := range parts {
		list[i] = partOf(&parts[i])
	}
	raw, _ := json.Marshal(list)
	return raw
}

// part is one element of the JSON list into which several parts of a message are converted.
type part struct {
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Raw       []byte          `json:"raw,omitempty"`
	URL       string          `json:"url,omitempty"`
	MediaType string          `json:"media_type,omitempty"`
	Filename  string          `json:"filename,omitempty"`
}

func partOf(p *machine.Part) part {
	out := part{MediaType: p.MediaType, Filename: p.Filename}
	switch p.Kind {
	case machine.PartText:
		out.Text = p.Text
	case machine.PartJSON:
		out.Data = p.Data
	case machine.PartData:
		out.Raw = p.Data
	case machine.PartURI:
		out.URL = p.Text
	}
	return out
}

func allText(parts []machine.Part) bool {
	for i := range parts {
		if parts[i].Kind != machine.PartText {
			return false
		}
	}
	return true
}

// textOf joins the text parts.
func textOf(parts []machine.Part) string {
	var texts []string
	for i := range parts {
		if parts[i].Kind == machine.PartText {
			texts = append(texts, parts[i].Text)
		}
	}
	return strings.Join(texts, "\n")
}
