package delivery

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestResultOfAForeignTask: chunks are one text, artifacts of one name are all kept, and the
// answer is found wherever the protocol lets an agent put it.
func TestResultOfAForeignTask(t *testing.T) {
	t.Parallel()
	text := func(chunks ...string) (parts []machine.Part) {
		for _, c := range chunks {
			parts = append(parts, machine.Part{Kind: machine.PartText, Text: c})
		}
		return parts
	}
	for name, c := range map[string]struct {
		task machine.AgentTask
		want string
	}{
		"appended chunks": {
			machine.AgentTask{ID: "t", Output: text("Hel", "lo ", "you")},
			`{"status":"COMPLETED","reason":"completed","output":"Hello you","task_id":"t"}`,
		},
		"what the status says": {
			machine.AgentTask{ID: "t", Message: text("done")},
			`{"status":"COMPLETED","reason":"completed","output":"done","task_id":"t"}`,
		},
		"the only artifact": {
			machine.AgentTask{ID: "t", Artifacts: []machine.AgentArtifact{{ID: "1", Name: "a", Parts: text("x")}}},
			`{"status":"COMPLETED","reason":"completed","output":"x","artifacts":{"a":"x"},"task_id":"t"}`,
		},
		"artifacts of one name": {
			machine.AgentTask{ID: "t", Message: text("three"), Artifacts: []machine.AgentArtifact{
				{ID: "1", Name: "a", Parts: text("x")}, {ID: "2", Name: "a", Parts: text("y")}, {ID: "2", Name: "a", Parts: text("z")},
			}},
			`{"status":"COMPLETED","reason":"completed","output":"three","artifacts":{"a":"x","a#2":"y","a#3":"z"},"task_id":"t"}`,
		},
		"a message instead of a task": {
			machine.AgentTask{Output: text("hi")},
			`{"status":"COMPLETED","reason":"completed","output":"hi"}`,
		},
	} {
		c.task.State = machine.AgentCompleted
		if got := outcomeOf(c.task, "", false); !got.OK || string(got.Result) != c.want {
			t.Errorf("%s: %s, want %s", name, got.Result, c.want)
		}
	}
}
