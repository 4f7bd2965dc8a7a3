package waiting

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/test/testkit"
)

// noon is the time of the last record of each run of the table. The clock of the table shows a minute
// later.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixNano()

func after(d time.Duration) int64 { return noon + int64(d) }

// facts are what the dispatcher, the limits and the journal know in one case.
type facts struct {
	holding   dispatch.Holding
	unfit     []dispatch.Unfit
	connected int
	own       bool
	waits     []ratelimit.Wait
	records   map[uint64]machine.Record
}

func (f *facts) Holding(runtime.RunKey) dispatch.Holding { return f.holding }

func (f *facts) Unfit(uint32, *machine.WorkClass) ([]dispatch.Unfit, int) {
	return f.unfit, f.connected
}

func (f *facts) TurnClass(*machine.State, *machine.Graph) machine.WorkClass {
	return machine.WorkClass{Kind: machine.TurnWork, Sidecar: f.own}
}

func (f *facts) StepClass(*machine.State, string) machine.WorkClass {
	return machine.WorkClass{Kind: machine.StepWork, Sidecar: f.own}
}

func (f *facts) WaitingCalls(runtime.RunKey) []ratelimit.Wait { return f.waits }

func (f *facts) Record(_ context.Context, _ runtime.RunKey, seq uint64) (machine.Record, error) {
	if rec, ok := f.records[seq]; ok {
		return rec, nil
	}
	return machine.Record{}, errors.New("no such record")
}

// graph has a state with a prompt, a gate with two events, a state that only sleeps, and tools.
var graph = &machine.Graph{
	States: map[string]*machine.Node{
		"work":  {Name: "work", Prompt: "desk", OnEvent: map[string]string{"Go": "gate"}},
		"gate":  {Name: "gate", Orchestration: machine.External, OnEvent: map[string]string{"Yes": "work", "No": "work"}},
		"sleep": {Name: "sleep", Orchestration: machine.External, OnEvent: map[string]string{"Awake": "work"}, Timeout: &machine.Timeout{After: time.Hour, Event: "Awake"}},
	},
	Tools: map[string]machine.Tool{
		"refund": {Timeout: time.Hour, Approval: &machine.Approval{Timeout: time.Hour, NotStarter: true}},
		"search": {Timeout: time.Hour},
		"clerk":  {Timeout: time.Hour, Agent: true},
	},
}

// running is a run whose turn is ready.
func running(change ...func(*machine.State)) *machine.State {
	s := &machine.State{
		RunID: "R", Status: machine.Running, Execution: machine.Workers, Current: "work", Seq: 9, At: noon, StatusAt: noon,
		Turn: &machine.Turn{Seq: 9, Attempt: 1},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// pending adds a pending step that was requested at noon.
func pending(tool string, change ...func(*machine.ToolStep)) func(*machine.State) {
	return func(s *machine.State) {
		p := machine.ToolStep{Step: uint32(len(s.Steps) + 1), Tool: tool, Status: machine.StepStatusPending, Attempt: 1, Deadline: after(time.Hour), RequestSeq: s.Seq}
		for _, f := range change {
			f(&p)
		}
		s.Steps = append(s.Steps, p)
	}
}

func suspended(s *machine.State) { s.Turn.Suspended, s.Status = true, machine.Waiting }

// TestEachKind has one case or more for each kind of thing that a run waits for.
func TestEachKind(t *testing.T) {
	t.Parallel()
	worker := dispatch.Held{Worker: "w1", Since: noon, Seen: after(30 * time.Second), Until: after(90 * time.Second)}
	sidecar := dispatch.Held{Worker: "pawl", Sidecar: true, Since: noon, Seen: noon}
	for name, c := range map[string]struct {
		state *machine.State
		facts facts
		kind  Kind
		want  string
	}{
		"ended":    {running(func(s *machine.State) { s.Status = machine.Completed }), facts{}, Nothing, ""},
		"imported": {running(func(s *machine.State) { s.Imported = true }), facts{}, Nothing, ""},
		"approval": {
			running(suspended, pending("refund", func(p *machine.ToolStep) { p.Approval = &machine.StepApproval{Held: true, Since: noon} })), facts{}, Approval,
			"Step 1 (refund) waits for approval since 2026-01-31T12:00:00Z. A principal with the scope steps:approve that did not start the run may decide. " +
				"Without a decision, the call is denied at 2026-01-31T13:00:00Z.",
		},
		"no worker": {
			running(), facts{}, NoWorker,
			"No worker has the turn of the prompt desk since 2026-01-31T12:00:00Z: no worker is connected.",
		},
		"no worker that fits": {
			running(func(s *machine.State) { s.Turn.Seq = 4 }),
			facts{
				connected: 9, records: map[uint64]machine.Record{4: {At: after(-time.Minute)}},
				unfit: []dispatch.Unfit{
					{Worker: "a", Cause: dispatch.UnfitOtherPack},
					{Worker: "b", Cause: dispatch.UnfitNotServed},
					{Worker: "c", Cause: dispatch.UnfitNoCapacity},
					{Worker: "d", Cause: dispatch.UnfitDraining},
					{Worker: "e", Cause: dispatch.UnfitFull, Load: dispatch.Load{Work: 4, ApprovalWaits: 2, StepWaits: 1}},
					{Worker: "f", Cause: dispatch.UnfitNoCredit},
					{Worker: "g", Cause: dispatch.UnfitFree},
				},
			}, NoWorker,
			"No worker has the turn of the prompt desk since 2026-01-31T11:59:00Z: a serves other packs, b does not serve it, c executes no turns, d is stopping, " +
				"e is full (turns: 4, 2 with a call that waits for approval, 1 with a call that has no answer yet), f requests no more work, g gets it next, and 2 more.",
		},
		"no worker for a step": {
			running(suspended, pending("search")), facts{connected: 1, unfit: []dispatch.Unfit{{Worker: "a", Cause: dispatch.UnfitNoCapacity}}}, NoWorker,
			"No worker has step 1 (search) since 2026-01-31T12:00:00Z: a executes no steps.",
		},
		"no worker that has room for a step": {
			running(suspended, pending("search")), facts{connected: 1, unfit: []dispatch.Unfit{{Worker: "a", Cause: dispatch.UnfitFull, Load: dispatch.Load{Work: 2}}}}, NoWorker,
			"No worker has step 1 (search) since 2026-01-31T12:00:00Z: a is full (steps: 2).",
		},
		"no executor": {
			running(func(s *machine.State) { s.Execution = machine.Sidecar }), facts{own: true}, NoWorker,
			"The sidecar itself must execute and has not taken the turn of the prompt desk since 2026-01-31T12:00:00Z: it executes no such work. Configure a model or the MCP server.",
		},
		"worker": {
			running(), facts{holding: dispatch.Holding{Turn: &dispatch.Held{Worker: "w1", Since: noon, Seen: after(time.Second), Output: after(2 * time.Second), Until: after(time.Minute)}}}, Worker,
			"The worker w1 has the turn of the prompt desk since 2026-01-31T12:00:00Z. Its last request was at 2026-01-31T12:00:01Z, its last output at 2026-01-31T12:00:02Z.",
		},
		"worker with a step": {
			running(suspended, pending("search")), facts{holding: dispatch.Holding{Steps: map[uint32]dispatch.Held{1: worker}}}, Worker,
			"The worker w1 has step 1 (search) since 2026-01-31T12:00:00Z. Its last request was at 2026-01-31T12:00:30Z. The step times out at 2026-01-31T13:00:00Z.",
		},
		"worker away": {
			running(suspended, pending("search")), facts{holding: dispatch.Holding{Steps: map[uint32]dispatch.Held{1: {Worker: "w1", Lost: true}}}}, Worker,
			"The worker w1 has step 1 (search) and is disconnected. The step waits until it reconnects, or its outcome is unknown.",
		},
		"worker that calls a model": {
			running(pending("gpt", func(p *machine.ToolStep) { p.Model = &machine.ModelStep{} })), facts{holding: dispatch.Holding{Turn: &worker}}, Worker,
			"The worker w1 has the call of the model gpt (step 1) since 2026-01-31T12:00:00Z. Its last request was at 2026-01-31T12:00:30Z. The step times out at 2026-01-31T13:00:00Z.",
		},
		"limit": {
			running(), facts{waits: []ratelimit.Wait{{Limits: []string{"openai", "all"}, Keys: []string{"gpt", "all"}, Model: "gpt", For: 2 * time.Minute, Ahead: 3}}}, Limit,
			"The call of the model gpt waits for the limit openai (gpt), all since 2026-01-31T11:59:00Z, 3 before it.",
		},
		"limit of a tool": {
			running(suspended, pending("search")), facts{waits: []ratelimit.Wait{{Limits: []string{"mail"}, Keys: []string{""}, Tool: "search", Step: 1, For: time.Minute}}}, Limit,
			"Step 1 (search) waits for the limit mail since 2026-01-31T12:00:00Z.",
		},
		"timer": {
			running(func(s *machine.State) {
				s.Current, s.Status, s.StateTimeoutAt = "sleep", machine.Waiting, after(time.Hour)
			}), facts{}, Timer,
			"The timeout of the state moves the run at 2026-01-31T13:00:00Z with the event Awake.",
		},
		"input": {
			running(func(s *machine.State) { s.Turn, s.Status, s.Awaiting = nil, machine.Waiting, machine.AwaitInput }), facts{}, Input,
			"The run waits for an input since 2026-01-31T12:00:00Z.",
		},
		"authorisation": {
			running(func(s *machine.State) {
				s.Turn, s.Status, s.Awaiting, s.StateTimeoutAt = nil, machine.Waiting, machine.AwaitAuth, after(time.Hour)
			}), facts{}, Input,
			"The run waits for an authorisation and then an input since 2026-01-31T12:00:00Z. Its state times out at 2026-01-31T13:00:00Z.",
		},
		"question of an agent": {
			running(suspended, pending("clerk", func(p *machine.ToolStep) {
				p.Delegation, p.Remote = true, &machine.Remote{TaskID: "T", Asking: machine.AwaitInput}
			})), facts{}, Input,
			"The agent clerk (step 1) waits for an input since 2026-01-31T12:00:00Z.",
		},
		"event": {
			running(func(s *machine.State) { s.Current, s.Status = "gate", machine.Waiting }), facts{}, Event,
			"The run waits for an event from outside since 2026-01-31T12:00:00Z: No, Yes.",
		},
		"paused": {
			running(func(s *machine.State) { s.Paused = true }),
			facts{records: map[uint64]machine.Record{9: {Body: &machine.StepResolved{}}, 8: {Principal: "ada", At: after(-time.Minute), Body: &machine.Paused{}}}}, Paused,
			"ada paused the run at 2026-01-31T11:59:00Z.",
		},
		"paused long ago": {running(func(s *machine.State) { s.Paused = true }), facts{}, Paused, "The run is paused."},
		"delegation": {
			running(suspended, pending("clerk", func(p *machine.ToolStep) { p.Delegation = true })), facts{}, Delegation,
			"The agent clerk executes step 1 since 2026-01-31T12:00:00Z. The step times out at 2026-01-31T13:00:00Z.",
		},
		"retry of a turn": {
			running(func(s *machine.State) {
				s.Turn.Attempt, s.Turn.NotBefore, s.Status = 2, after(time.Hour), machine.Waiting
			}), facts{}, Retry,
			"Attempt 2 of the turn of the prompt desk begins at 2026-01-31T13:00:00Z.",
		},
		"retry of a step": {
			running(suspended, pending("search", func(p *machine.ToolStep) { p.Attempt, p.Deadline = 2, after(3*time.Hour) })), facts{}, Retry,
			"Attempt 2 of step 1 (search) begins at 2026-01-31T14:00:00Z.",
		},
		"caller": {
			running(func(s *machine.State) { s.Execution = machine.Caller }), facts{}, Caller,
			"The program that started the run executes the turn of the prompt desk. The sidecar has not heard from it since 2026-01-31T12:00:00Z.",
		},
		"sidecar": {
			running(func(s *machine.State) { s.Execution = machine.Sidecar }, pending("gpt", func(p *machine.ToolStep) { p.Model = &machine.ModelStep{} })),
			facts{holding: dispatch.Holding{Turn: &sidecar}}, Sidecar,
			"The sidecar itself executes the call of the model gpt (step 1) since 2026-01-31T12:00:00Z.",
		},
		"tool of the sidecar": {
			running(suspended, pending("search")), facts{holding: dispatch.Holding{Steps: map[uint32]dispatch.Held{1: sidecar}}}, Sidecar,
			"The sidecar itself executes step 1 (search) since 2026-01-31T12:00:00Z.",
		},
		"the step without a worker before the one with one": {
			running(suspended, pending("search"), pending("refund")), facts{holding: dispatch.Holding{Steps: map[uint32]dispatch.Held{1: worker}}}, NoWorker,
			"No worker has step 2 (refund) since 2026-01-31T12:00:00Z: no worker is connected.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			clock.Jump(time.Unix(0, after(time.Minute)).Sub(clock.Now()))
			got := New(Config{Work: &c.facts, Limits: &c.facts, Past: &c.facts, Clock: clock}).ReasonFor(context.Background(), c.state, graph)
			if got.Kind != c.kind || got.Sentence() != c.want {
				t.Errorf("kind %d: %s\nwant %d: %s", got.Kind, got.Sentence(), c.kind, c.want)
			}
			// The kind alone is the same without a journal.
			if kind := New(Config{Work: &c.facts, Limits: &c.facts, Clock: clock}).Kind(c.state, graph); kind != c.kind {
				t.Errorf("kind alone %d, want %d", kind, c.kind)
			}
		})
	}
}
