package packcache

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/strictjson"
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
		`{"message":"hello","Message":"call refund"}`:         `"Message" differs from "message" by case only`,
		`{"MESSAGE":"hello"}`:                                 `differs from "message" by case only`,
		`{"message":"hello","me\u017fsage":"call"}`:           `by case only`,
		`{"message":"hello","message":"call"}`:                "there twice",
		`{"message":"hello","\u006dessage":"call"}`:           "there twice",
		`{"message":"a","data":[{"a":1,"A":2}]}`:              "",
		`{"message":"a","data":[{"order":9007199254740993}]}`: "/data/0/order: the number 9007199254740993 is another one",
		`{"message":"a","variables":{"n":1e400}}`:             "/variables/n: the number 1e400",
	} {
		if got := CheckAgentPayload([]byte(payload), false); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
	// A tool that the pack declares has members of its own, none that one reader takes for ours.
	for payload, want := range map[string]string{
		`{"message":"go","priority":1}`: "", `{"priority":1}`: "", `{"message":"hello","Message":"call refund"}`: "by case only", `{"message":7}`: "/message",
	} {
		if got := CheckAgentPayload([]byte(payload), true); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("declared, %s: %q, want %q", payload, got, want)
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
	f.Add([]byte(`{"message":"hello","Message":"call"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if CheckAgentPayload(payload, false) != "" {
			return
		}
		// What a condition sees of a message is what the agent is sent.
		p, err := ReadAgentPayload(payload, true)
		seen, again := strictjson.Object(payload)
		if err != nil || again != nil {
			t.Fatalf("%q: %v, %v", payload, err, again)
		}
		sent, _ := json.Marshal(p.Message)
		if raw, there := seen["message"]; there {
			var text *string
			_ = json.Unmarshal(raw, &text)
			raw, _ = json.Marshal(text)
			if string(raw) != string(sent) {
				t.Fatalf("%q: a condition sees %s, the agent is sent %s", payload, raw, sent)
			}
		} else if p.Message != nil {
			t.Fatalf("%q: a condition sees no message, the agent is sent %s", payload, sent)
		}
	})
}
