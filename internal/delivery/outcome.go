package delivery

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants limit the contents of the outcome of an agent's task, in bytes.
const (
	maxResult = 1 << 20
	// These are the codes of unusable answers. Other packages that call agents also use them.
	resultTooLarge = "AGENT_RESULT_TOO_LARGE"
	brokeProtocol  = "AGENT_PROTOCOL"
	maxCode        = 128
	maxMessage     = 16 << 10
)

// result is the JSON that is the answer to the step of a delegation (semantics section 10).
type result struct {
	Status    string                     `json:"status"`
	Reason    string                     `json:"reason,omitempty"`
	Output    json.RawMessage            `json:"output,omitempty"`
	Artifacts map[string]json.RawMessage `json:"artifacts,omitempty"`
	TaskID    string                     `json:"task_id,omitempty"`
	CardURL   string                     `json:"card_url,omitempty"`
}

// outcomeOf returns the outcome of a task that has ended. Only a failure that the agent reports may be
// retried, because an exhausted budget, an escalation or a cancellation would occur again. For a step
// with a business key, the outcome is unknown if the agent may have had effects. So the key is released
// only if there were none.
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

// assumed returns the usage that a task reports. For figures that it does not report, the amounts of
// the lease are used.
func assumed(task *machine.AgentTask, lease machine.Amount) machine.Usage {
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
		return done(brokeProtocol, err.Error())
	}
	if len(raw) > maxResult {
		return done(resultTooLarge, fmt.Sprintf("the agent's result has %d bytes, at most %d are taken; let it store it elsewhere and name it", len(raw), maxResult))
	}
	return machine.Outcome{OK: true, Result: raw}
}

// answerIn returns the result of a task. This is its output if there is one. Otherwise it is the
// message of its status and, if there is no message, its only artifact.
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

// artifactsOf returns the artifacts by name. If a name occurs more than once, the artifact's id or a
// number is added to it.
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

// unknown returns the outcome for work that may or may not have been done.
func unknown(code, message string) machine.Outcome {
	outcome := failure(code, message, false)
	outcome.Unknown = true
	return outcome
}

// done returns the outcome for work that the agent has begun or done but whose result is unusable. The
// step is not retried.
func done(code, message string) machine.Outcome {
	outcome := unknown(code, message)
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

// valueOf converts parts to one JSON value. Text becomes a string, a single JSON part is used
// unchanged, and all other parts become a list of objects.
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

// part is one element of the list that represents several parts.
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
