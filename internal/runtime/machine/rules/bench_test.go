package rules

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// loopGraph is a codegen loop: the shape that most transitions have.
func loopGraph() *machine.Graph {
	return &machine.Graph{
		Digest: "sha256:00", PackID: "loop", PackVersion: "1.0.0", Entry: "plan",
		States: map[string]*machine.Node{
			"plan":      {Name: "plan", Prompt: "p", OnEvent: map[string]string{"PlanReady": "implement"}},
			"implement": {Name: "implement", Prompt: "p", OnEvent: map[string]string{"CodeReady": "test"}},
			"test":      {Name: "test", Prompt: "p", OnEvent: map[string]string{"TestsPassed": "done", "TestsFailed": "implement"}},
			"done":      {Name: "done", Prompt: "p", Terminal: true},
		},
		Prompts:   map[string]*machine.Prompt{"p": {Name: "p", Tools: map[string]bool{"run_tests": true}}},
		Artifacts: map[string]machine.Artifact{"commit_sha": {Type: "text/plain"}, "test_report": {Type: "application/json"}},
		Budget:    machine.Budget{MaxWallTime: time.Hour},
	}
}

// BenchmarkStepEmit is one transition with one artifact of a run in full swing.
func BenchmarkStepEmit(b *testing.B) {
	g := loopGraph()
	start := machine.Start{RunID: "01J0000000000000000000000A", Execution: machine.Caller, Limits: machine.Limits{MaxTransitions: 1 << 40}}
	r, err := Step(g, nil, machine.Input{At: 1, Principal: "bench", Command: start})
	if err != nil {
		b.Fatal(err)
	}
	r, err = Step(g, r.State, machine.Input{At: 2, Principal: "bench", Command: machine.EmitEvent{Event: "PlanReady"}})
	if err != nil {
		b.Fatal(err)
	}
	commands := [2]machine.Command{
		machine.EmitEvent{Event: "CodeReady", Artifacts: []machine.ArtifactWrite{{Name: "commit_sha", Value: []byte("d9a63358f0c1")}}},
		machine.EmitEvent{Event: "TestsFailed", Artifacts: []machine.ArtifactWrite{{Name: "test_report", Value: []byte(`{"passed":2,"failed":3}`)}}},
	}
	s := r.State
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r, err := Step(g, s, machine.Input{At: 3, Principal: "bench", ID: "event-1", Command: commands[i%2]})
		if err != nil {
			b.Fatal(err)
		}
		s = r.State
	}
}
