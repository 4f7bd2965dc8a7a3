package program

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAgentPayload(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"message":"go"}`: "",
		`{"message":"go","variables":{"a":1},"data":[{"b":2},[1]]}`: "",
		`{"data":[1]}`:                  "",
		`{}`:                            "message",
		`{"message":1}`:                 "message",
		`{"message":"go","url":"http"}`: "url",
		`{"message":"go","data":{}}`:    "data",
		`[]`:                            "want",
	} {
		if got := CheckAgentPayload([]byte(payload)); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
	if !json.Valid(AgentParameters) {
		t.Error("the schema is no JSON")
	}
}

// FuzzAgentPayload: what a turn gives an agent has what an agent needs, or is refused.
func FuzzAgentPayload(f *testing.F) {
	f.Add([]byte(`{"message":"x","variables":{"a":1},"data":[1]}`))
	f.Add([]byte(`{"message":null,"data":[]}`))
	f.Fuzz(func(_ *testing.T, payload []byte) { _ = CheckAgentPayload(payload) })
}
