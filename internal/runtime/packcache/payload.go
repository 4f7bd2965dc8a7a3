package packcache

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// AgentParameters is the JSON Schema of what a turn gives an agent whose tool the
// pack does not declare (semantics §10).
var AgentParameters = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["message"],"properties":{` +
	`"message":{"type":"string","description":"What the agent is to do"},` +
	`"variables":{"type":"object","description":"Values of the agent's variables"},` +
	`"data":{"type":"array","items":{},"description":"Structured parts of the message"}}}`)

// AgentPayload is what a turn gives an agent.
type AgentPayload struct {
	Message   *string                    `json:"message"`
	Variables map[string]json.RawMessage `json:"variables"`
	Data      []json.RawMessage          `json:"data"`
}

// ReadAgentPayload reads the payload of a delegation: what is decided about and what is sent are
// read by it alike. A tool that the pack declares itself may have members of its own, which no
// agent is sent; none of them differs from ours by case only. The error says what is wrong.
func ReadAgentPayload(payload []byte, declared bool) (AgentPayload, error) {
	names := strictjson.Closed
	if declared {
		names = strictjson.Open
	}
	var p AgentPayload
	err := strictjson.Decode(payload, &p, names)
	return p, err
}

// CheckAgentPayload says what is wrong with the payload of a delegation, or "".
func CheckAgentPayload(payload []byte, declared bool) string {
	p, err := ReadAgentPayload(payload, declared)
	switch {
	case err != nil:
		return "want {message, variables, data}: " + err.Error()
	case !declared && p.Message == nil && len(p.Data) == 0:
		return "message: is required"
	}
	// A2A carries data and variables as google.protobuf.Value: what nobody could be sent is
	// refused before anybody approves it.
	if err := strictjson.Doubles(payload); err != nil {
		return "an agent is sent numbers as doubles: " + err.Error()
	}
	return ""
}
