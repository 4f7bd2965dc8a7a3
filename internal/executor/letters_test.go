package executor

import (
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestArgumentsHaveOneReading: the executor reads the arguments of a model by exact names. If two readers
// would understand the arguments differently, the call is wrong, and the model receives the error.
func TestArgumentsHaveOneReading(t *testing.T) {
	t.Parallel()
	x := &exchange{exitTool: defaultExitTool, view: &pawlv1.GetTurnResponse{AllowedEvents: []string{"Pay", "Stop"}}, offered: []*pawlv1.ToolSpec{{Name: "look"}}}
	x.slots = map[string]*pawlv1.ArtifactSlot{"note": {Name: "note", MediaType: "text/plain"}, "data": {Name: "data", MediaType: "application/json"}}
	for arguments, want := range map[string]string{
		`{"event":"Stop","Event":"Pay"}`:                                     `"Event" differs from "event" by case only`,
		`{"Event":"Pay"}`:                                                    `"Event" differs from "event" by case only`,
		`{"event":"Stop","event":"Pay"}`:                                     "twice",
		`{"event":"Pay","artifacts":{"data":{"a":1,"a":2}}}`:                 "twice",
		`{"event":"Pay","artifacts":{"note":"\ud83d"}}`:                      "surrogate",
		`{"event":"Pay","Artifacts":{"note":"x"}}`:                           `"Artifacts" differs`,
		`{"event":"Pay","artifacts":{"data":[9007199254740993,1.10,1e2]}}`:   "",
		`{"event":"Pay","artifacts":{"data":{"a":1,"A":2},"note":"\u00e9"}}`: "",
	} {
		event, writes := "", []*pawlv1.ArtifactWrite(nil)
		done, err := x.parseExitCall(arguments)
		if err == nil {
			event, writes = done.Event, done.Artifacts
		}
		switch {
		case want == "" && (err != nil || event != "Pay"):
			t.Errorf("%s: %q, %v", arguments, event, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %q, %v, want %q", arguments, event, err, want)
		}
		for _, w := range writes {
			if w.GetName() == "data" && !strings.Contains(arguments, w.GetValue().GetJson()) {
				t.Errorf("%s became %s", arguments, w.GetValue().GetJson())
			}
		}
	}
	for arguments, want := range map[string]string{
		`{"path":"a","path":"b"}`: "twice", `{"path":"\ud83d"}`: "surrogate", `[1]`: "want an object", `null`: "want an object", `{"path":"a","Path":"b"}`: "",
	} {
		if why := x.callFault(&pawlv1.ModelCall{Name: "look", Arguments: arguments}); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", arguments, why, want)
		}
	}
}
