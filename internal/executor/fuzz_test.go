package executor

import (
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// FuzzArguments: for any arguments of a model, the executor takes the call or returns an error for the model.
// It never takes an event or an artifact that the state does not have.
func FuzzArguments(f *testing.F) {
	f.Add(`{"event":"Found","artifacts":{"note":"x","data":{"a":1}}}`)
	f.Add(`{"event":"Found"} {}`)
	f.Add(`{"artifacts":{"note":7}}`)
	f.Fuzz(func(t *testing.T, arguments string) {
		x := &exchange{exitTool: defaultExitTool, view: &pawlv1.GetTurnResponse{AllowedEvents: []string{"Found"}}, offered: []*pawlv1.ToolSpec{{Name: "look"}}}
		x.slots = map[string]*pawlv1.ArtifactSlot{"note": {Name: "note", MediaType: "text/plain"}, "data": {Name: "data", MediaType: "application/json"}}
		done, err := x.parseExitCall(arguments)
		if err == nil {
			if done.Event != "Found" {
				t.Errorf("event %q", done.Event)
			}
			for _, w := range done.Artifacts {
				if x.slots[w.GetName()] == nil {
					t.Errorf("artifact %q", w.GetName())
				}
			}
		}
		x.callFault(&pawlv1.ModelCall{Name: "look", Arguments: arguments})
	})
}
