package program

import (
	"bytes"
	"encoding/json"
	"strings"
)

// agentParameters is the JSON Schema of what a turn gives an agent whose tool the
// pack does not declare (semantics §10).
var AgentParameters = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["message"],"properties":{` +
	`"message":{"type":"string","description":"What the agent is to do"},` +
	`"variables":{"type":"object","description":"Values of the agent's variables"},` +
	`"data":{"type":"array","items":{},"description":"Structured parts of the message"}}}`)

// CheckAgentPayload says what is wrong with the payload of a delegation, or "".
func CheckAgentPayload(payload []byte) string {
	var p struct {
		Message   *string                    `json:"message"`
		Variables map[string]json.RawMessage `json:"variables"`
		Data      []json.RawMessage          `json:"data"`
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return "want {message, variables, data}: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	if p.Message == nil && len(p.Data) == 0 {
		return "message: is required"
	}
	return ""
}
