package machine

import (
	"testing"
	"time"
)

// loopGraph is a codegen loop: the shape that most transitions have.
func loopGraph() *Graph {
	return &Graph{
		Digest: "sha256:00", PackID: "loop", PackVersion: "1.0.0", Entry: "plan",
		States: map[string]*Node{
			"plan":      {Name: "plan", Prompt: "p", OnEvent: map[string]string{"PlanReady": "implement"}},
			"implement": {Name: "implement", Prompt: "p", OnEvent: map[string]string{"CodeReady": "test"}},
			"test":      {Name: "test", Prompt: "p", OnEvent: map[string]string{"TestsPassed": "done", "TestsFailed": "implement"}},
			"done":      {Name: "done", Prompt: "p", Terminal: true},
		},
		Prompts:   map[string]*Prompt{"p": {Name: "p", Tools: map[string]bool{"run_tests": true}}},
		Artifacts: map[string]Artifact{"commit_sha": {Type: "text/plain"}, "test_report": {Type: "application/json"}},
		Budget:    Budget{MaxWallTime: time.Hour},
	}
}

// BenchmarkStepEmit is one transition with one artifact of a run in full swing.
func BenchmarkStepEmit(b *testing.B) {
	g := loopGraph()
	start := Start{RunID: "01J0000000000000000000000A", Execution: Caller, Limits: Limits{MaxTransitions: 1 << 40}}
	r, err := Step(g, nil, Input{At: 1, Principal: "bench", Command: start})
	if err != nil {
		b.Fatal(err)
	}
	r, err = Step(g, r.State, Input{At: 2, Principal: "bench", Command: EmitEvent{Event: "PlanReady"}})
	if err != nil {
		b.Fatal(err)
	}
	commands := [2]Command{
		EmitEvent{Event: "CodeReady", Artifacts: []ArtifactWrite{{Name: "commit_sha", Value: []byte("d9a63358f0c1")}}},
		EmitEvent{Event: "TestsFailed", Artifacts: []ArtifactWrite{{Name: "test_report", Value: []byte(`{"passed":2,"failed":3}`)}}},
	}
	s := r.State
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r, err := Step(g, s, Input{At: 3, Principal: "bench", ID: "event-1", Command: commands[i%2]})
		if err != nil {
			b.Fatal(err)
		}
		s = r.State
	}
}
