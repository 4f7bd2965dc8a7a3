package packcache

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// AgentParameters is the JSON Schema of the payload that a call of an agent must have. It applies if
// the pack does not declare a tool for the agent (docs/reference/semantics.md §10).
var AgentParameters = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["message"],"properties":{` +
	`"message":{"type":"string","description":"What the agent is to do"},` +
	`"variables":{"type":"object","description":"Values of the agent's variables"},` +
	`"data":{"type":"array","items":{},"description":"Structured parts of the message"}}}`)

// AgentPayload is the payload with which a turn calls an agent.
type AgentPayload struct {
	Message   *string                    `json:"message"`
	Variables map[string]json.RawMessage `json:"variables"`
	Data      []json.RawMessage          `json:"data"`
}

// ReadAgentPayload parses the payload of a call of an agent. The check of a call and its sending both
// use it, so that they read the same values. declared means that the pack declares a tool for the
// agent. The payload may then have additional members, which are not sent to the agent. Their names
// must not differ from a known name only in case. The error describes the fault.
func ReadAgentPayload(payload []byte, declared bool) (AgentPayload, error) {
	names := strictjson.Closed
	if declared {
		names = strictjson.Open
	}
	var p AgentPayload
	err := strictjson.Decode(payload, &p, names)
	return p, err
}

// CheckAgentPayload returns a description of the fault in the payload of a call of an agent. It returns
// "" if the payload is valid.
func CheckAgentPayload(payload []byte, declared bool) string {
	p, err := ReadAgentPayload(payload, declared)
	switch {
	case err != nil:
		return "want {message, variables, data}: " + err.Error()
	case !declared && p.Message == nil && len(p.Data) == 0:
		return "message: is required"
	}
	// A2A sends data and variables as google.protobuf.Value. If a number cannot be sent in this form,
	// the call is refused before it is approved.
	if err := strictjson.Doubles(payload); err != nil {
		return "an agent is sent numbers as doubles: " + err.Error()
	}
	return ""
}
