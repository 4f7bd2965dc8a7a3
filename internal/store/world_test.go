package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/check"
)

// loopGraph has everything that makes rows: timers, steps, messages, artifacts.
func loopGraph() *machine.Graph {
	node := func(name string, on map[string]string) *machine.Node {
		return &machine.Node{Name: name, Prompt: name, OnEvent: on, Terminal: on == nil, Persistent: true, Artifacts: []string{"report", "plan"}}
	}
	g := &machine.Graph{
		Digest: "sha256:00", PackID: "codegen", PackVersion: "1.0.0", Entry: "plan",
		States: map[string]*machine.Node{
			"plan": node("plan", map[string]string{"Planned": "test"}),
			"test": node("test", map[string]string{"Again": "test", "Done": "end"}),
			"end":  node("end", nil),
		},
		Artifacts: map[string]machine.Artifact{
			"report": {Type: "text/plain", Mode: machine.Append}, "plan": {Type: "application/json"},
		},
		Tools:           map[string]machine.Tool{"run_tests": {Timeout: time.Minute, Attempts: 2, ResultArtifact: "report"}},
		Budget:          machine.Budget{MaxWallTime: time.Hour},
		Retry:           machine.RetryPolicy{MaxAttempts: 3, Initial: time.Second, Max: time.Minute},
		MaxPendingSteps: 8,
	}
	g.Prompts = map[string]*machine.Prompt{}
	for name := range g.States {
		g.Prompts[name] = &machine.Prompt{Name: name, Tools: map[string]bool{"run_tests": true}}
	}
	g.States["test"].Timeout = &machine.Timeout{After: time.Hour, Event: "Again"}
	return g
}

// world drives runs through the real machine into a store.
type world struct {
	t     testing.TB
	store *Store
	graph *machine.Graph
	runs  map[string]*machine.State
	at    int64
	ids   int
}

func newWorld(t testing.TB, s *Store) *world {
	t.Helper()
	g := loopGraph()
	if err := machine.CheckGraph(g); err != nil {
		t.Fatal(err)
	}
	return &world{t: t, store: s, graph: g, runs: make(map[string]*machine.State), at: testTime}
}

func (w *world) graphs(digest, entry, agent string, override bool) (*machine.Graph, error) {
	if digest != w.graph.Digest || entry != w.graph.Entry || agent != "" || override {
		return nil, fmt.Errorf("no graph of %s %s %s %v", digest, entry, agent, override)
	}
	return w.graph, nil
}

// do steps a run and commits what comes of it.
func (w *world) do(run string, c machine.Command) *machine.State {
	w.t.Helper()
	w.at += int64(time.Millisecond)
	w.ids++
	in := machine.Input{At: w.at, Principal: "anonymous", ID: fmt.Sprintf("id-%d", w.ids), BodyHash: [32]byte{byte(w.ids)}, Command: c}
	switch machine.KindOf(c) {
	case machine.CmdFireTimer, machine.CmdResolveStep:
		in.ID = ""
	}
	r, err := rules.Step(w.graph, w.runs[run], in)
	if err != nil {
		w.t.Fatalf("%T: %v", c, err)
	}
	if r.Batch == nil {
		w.t.Fatalf("%T changed nothing", c)
	}
	if _, err := w.store.Commit(context.Background(), r.Batch); err != nil {
		w.t.Fatalf("%T: %v", c, err)
	}
	w.runs[run] = r.State
	return r.State
}

func (w *world) start(run string, labels ...machine.Label) *machine.State {
	w.t.Helper()
	return w.do(run, machine.Start{
		RunID: run, Execution: machine.Workers, Variables: []byte(`{"goal":"ship"}`), Labels: labels,
		Input: []machine.Part{{Kind: machine.PartText, Text: "please"}},
	})
}

// live brings a run into the middle of its work: artifacts, messages, a pending
// step, timers and rows in every index.
func (w *world) live(run string) {
	w.t.Helper()
	turn := w.start(run, machine.Label{Key: "team", Value: "core"}).Turn
	st := w.do(run, machine.CompleteTurn{
		TurnSeq: turn.Seq, Attempt: turn.Attempt, Event: "Planned",
		Output:    []machine.Part{{Kind: machine.PartText, Text: "the plan"}},
		Messages:  []machine.Message{{Role: "assistant", Parts: []machine.Part{{Kind: machine.PartText, Text: "the plan"}}}},
		Artifacts: []machine.ArtifactWrite{{Name: "plan", Value: []byte(`{"steps":3}`)}},
	})
	w.do(run, machine.RequestSteps{TurnSeq: st.Turn.Seq, Attempt: 1, Requests: []machine.StepRequest{
		{Key: "a", Tool: "run_tests", Payload: []byte(`{"all":true}`)}, {Key: "b", Tool: "run_tests", Payload: []byte(`{}`)},
	}})
	w.do(run, machine.ResolveStep{Step: 1, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`"3 passed"`), Worker: "w"})
	w.do(run, machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{{Name: "report", Value: []byte("noted")}}})
	w.do(run, machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: "hurry"}}})
}

// end drives a run to its end from anywhere.
func (w *world) end(run string) { w.do(run, machine.Cancel{Note: "enough"}) }

func (w *world) check() check.Report {
	w.t.Helper()
	report, err := w.store.Check(context.Background(), w.graphs)
	if err != nil {
		w.t.Fatalf("check: %v", err)
	}
	return report
}
