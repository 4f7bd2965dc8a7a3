package deliver

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// payload is what a turn gives an agent (semantics section 10).
type payload struct {
	Message   string            `json:"message"`
	Variables json.RawMessage   `json:"variables"`
	Data      []json.RawMessage `json:"data"`
}

// messageOf is the message of a delegation: run, step and attempt are its id, so
// that it is the same however often it is sent.
func messageOf(d *machine.Delegation) (machine.AgentMessage, error) {
	var p payload
	if err := json.Unmarshal(d.Payload, &p); err != nil {
		return machine.AgentMessage{}, &machine.AgentFault{
			Kind: machine.AgentRefuses, Code: "PAYLOAD_INVALID", Message: "want {message, variables, data}: " + err.Error(),
		}
	}
	m := machine.AgentMessage{ID: messageID(&d.Row), Variables: p.Variables}
	if p.Message != "" {
		m.Parts = append(m.Parts, machine.Part{Kind: machine.PartText, Text: p.Message})
	}
	for _, data := range p.Data {
		m.Parts = append(m.Parts, machine.Part{Kind: machine.PartJSON, Data: data})
	}
	if len(m.Parts) == 0 {
		m.Parts = []machine.Part{{Kind: machine.PartText, Text: ""}}
	}
	return m, nil
}

// answerOf is the caller's answer to a question; its record is part of the id.
func answerOf(d *machine.Delegation) machine.AgentMessage {
	return machine.AgentMessage{
		ID:     fmt.Sprintf("%s/%d", messageID(&d.Row), d.Remote.Answer),
		TaskID: d.Remote.TaskID, ContextID: d.Remote.ContextID, Parts: d.Answer, Answerer: d.Answerer,
	}
}

func messageID(row *machine.OutboxRow) string {
	return fmt.Sprintf("%s/%d/%d", row.RunID, row.Step, row.Attempt)
}
