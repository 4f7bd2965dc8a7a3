package delivery

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// messageOf returns the message that begins a delegation. Its id consists of the run, the step and the attempt, so a
// repeated message has the same id. messageOf returns an error if mayPass does not permit the message, or if the payload
// cannot be read.
func messageOf(peer Peer, d *machine.Delegation) (machine.AgentMessage, error) {
	if !mayPass(peer, d) {
		return machine.AgentMessage{}, &machine.AgentFault{Kind: machine.AgentRefuses, Code: "AGENT_UNBOUND", Unsent: true, Message: fmt.Sprintf(
			"the run may not call every tool, and the agent %s does not declare that it keeps to the lists of others: "+
				"name it in the sidecar's allowlist (--allow-tool %s) if it may work without them", d.Agent, d.Agent)}
	}
	p, err := packcache.ReadAgentPayload(d.Payload, true) // true: additional members were checked when the step was requested
	var variables json.RawMessage
	if err == nil && p.Variables != nil {
		variables, err = json.Marshal(p.Variables)
	}
	if err != nil {
		return machine.AgentMessage{}, &machine.AgentFault{
			Kind: machine.AgentRefuses, Code: "PAYLOAD_INVALID", Message: "want {message, variables, data}: " + err.Error(),
		}
	}
	m := machine.AgentMessage{ID: messageID(&d.Row), Variables: variables}
	if p.Message != nil && *p.Message != "" {
		m.Parts = append(m.Parts, machine.Part{Kind: machine.PartText, Text: *p.Message})
	}
	for _, data := range p.Data {
		m.Parts = append(m.Parts, machine.Part{Kind: machine.PartJSON, Data: data})
	}
	if len(m.Parts) == 0 {
		m.Parts = []machine.Part{{Kind: machine.PartText, Text: ""}}
	}
	return m, nil
}

// mayPass reports whether the message of the delegation may be sent to the agent. If the run may not
// call every tool, the agent must apply the run's lists of tools, or the operator's allowlist must name
// the agent.
func mayPass(peer Peer, del *machine.Delegation) bool {
	return peer.Bound() || !del.Policy.Binds() || del.Policy.Named
}

// answerOf returns the message with the caller's answer to the agent's question. The message id ends
// with the number of the answer's record, so a repeat has the same id.
func answerOf(d *machine.Delegation) machine.AgentMessage {
	return machine.AgentMessage{
		ID:     fmt.Sprintf("%s/%d", messageID(&d.Row), d.Remote.Answer),
		TaskID: d.Remote.TaskID, ContextID: d.Remote.ContextID, Parts: d.Answer, Answerer: d.Answerer,
	}
}

func messageID(row *machine.OutboxRow) string {
	return fmt.Sprintf("%s/%d/%d", row.RunID, row.Step, row.Attempt)
}
