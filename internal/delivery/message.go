package delivery

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// messageOf returns the message that begins a delegation. It is also used when the message is sent
// again in order to get the task's id. The message id consists of the run, the step and the attempt, so
// it is always the same. messageOf returns an error if the agent would not apply the run's lists of
// tools.
func messageOf(peer Peer, d *machine.Delegation) (machine.AgentMessage, error) {
	if !mayPass(peer, d) {
		return machine.AgentMessage{}, &machine.AgentFault{Kind: machine.AgentRefuses, Code: "AGENT_UNBOUND", Unsent: true, Message: fmt.Sprintf(
			"the run may not call every tool, and the agent %s does not declare that it keeps to the lists of others: "+
				"name it in the sidecar's allowlist (--allow-tool %s) if it may work without them", d.Agent, d.Agent)}
	}
	p, err := packcache.ReadAgentPayload(d.Payload, true) // whether the payload is closed was decided at the request
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

// mayPass reports whether the delegation may be sent to the agent with the run's lists of tools. This
// is the case if the agent applies the lists, or if the operator's own list names the agent.
func mayPass(peer Peer, del *machine.Delegation) bool {
	return peer.Bound() || !del.Policy.Binds() || del.Policy.Named
}

// answerOf returns the message with the caller's answer to a question. The message id contains the
// record of the answer.
func answerOf(d *machine.Delegation) machine.AgentMessage {
	return machine.AgentMessage{
		ID:     fmt.Sprintf("%s/%d", messageID(&d.Row), d.Remote.Answer),
		TaskID: d.Remote.TaskID, ContextID: d.Remote.ContextID, Parts: d.Answer, Answerer: d.Answerer,
	}
}

func messageID(row *machine.OutboxRow) string {
	return fmt.Sprintf("%s/%d/%d", row.RunID, row.Step, row.Attempt)
}
