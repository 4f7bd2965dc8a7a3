package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// charges is a pack with a reconcile tool for calls with unknown outcome.
const charges = `id: charges
name: Charges
version: 1.0.0
template_engine: { version: v1, syntax: "{{variable}}" }
prompts: { p: { id: p, name: P, version: 1.0.0, system_template: "Charge.", tools: [charge] } }
tools:
  charge: { name: charge, description: Charges a card }
  status: { name: status, description: Says whether it was charged, parameters: { type: object, properties: {} } }
workflow:
  version: 2
  entry: a
  engine: { x_pawl: { tools: { charge: { attempts: 3, on_unknown: reconcile, reconcile: status } } } }
  states:
    a: { prompt_task: p, on_event: { Done: end } }
    end: { prompt_task: p, terminal: true }
`

// TestForgetfulWorkers: the sidecar is killed while a worker of other people's making has a call, and
// the worker does not name the call when it comes back. What it says that it received decides: a call
// that arrived is not made again, the tool that knows is asked; one that never arrived is sent again.
func TestForgetfulWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		instance string
		received func(delivery uint64) *uint64
		again    bool
	}{
		"received, and forgotten": {"i", proto.Uint64, false},
		"says nothing":            {"i", func(uint64) *uint64 { return nil }, false},
		"another process":         {"j", func(uint64) *uint64 { return proto.Uint64(0) }, false},
		"never received":          {"i", func(d uint64) *uint64 { return new(d - 1) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSidecar(t, "--allow-tool", "*", "--restart-grace", "300ms")
			s.start()
			ctx := deadline(t, patience)
			if _, err := pawlv1.NewPackServiceClient(s.dial()).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(charges), Filename: "charges.yaml"}); err != nil {
				t.Fatal(err)
			}
			run := chargeIn(ctx, t, s)
			first := registerForgetful(ctx, t, s, "i", proto.Uint64(0))
			sent := first.step(t)
			s.kill()
			s.start()
			back := registerForgetful(ctx, t, s, c.instance, c.received(sent.GetDelivery()))
			if c.again {
				again := back.step(t)
				if l := again.GetLease(); l.GetRunId() != run || l.GetAttempt() != 1 {
					t.Fatalf("sent again: %v, after %v", again, sent)
				}
				back.answerPayment(t, again)
			}
			defer back.endUnused(t)
			defer startWorker(ctx, t, s, pawl.WorkerConfig{ID: "status", Steps: 1, Tools: map[string]pawl.ToolFunc{
				"status": func(context.Context, *pawl.Step) (json.RawMessage, error) {
					return json.RawMessage(`{"happened": true, "result": "paid"}`), nil
				},
			}})()
			answeredOnce(ctx, t, s, run, !c.again)
		})
	}
}

// chargeIn starts a run and asks for its call.
func chargeIn(ctx context.Context, t *testing.T, s *sidecar) string {
	t.Helper()
	runs := s.runs()
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "charges", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	run := started.GetRun().GetRunId()
	turn, err := runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	ref := turn.GetTurn()
	if _, err := runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "charge", Key: "k", PayloadJson: "{}"}},
	}); err != nil {
		t.Fatal(err)
	}
	return run
}

// answeredOnce waits for the answer of the call, and checks that it has one attempt; doubted: it was
// asked about.
func answeredOnce(ctx context.Context, t *testing.T, s *sidecar, run string, doubted bool) {
	t.Helper()
	runs := s.runs()
	var resolved, doubts []*pawlv1.Record
	eventually(t, "the call is answered", func() bool {
		list, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{
			pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_STEP_OUTCOME_UNKNOWN,
		}})
		if err != nil {
			return false
		}
		resolved, doubts = nil, nil
		for _, r := range list.GetRecords() {
			switch {
			case r.GetStepResolved().GetTool() == "charge":
				resolved = append(resolved, r)
			case r.GetStepOutcomeUnknown() != nil:
				doubts = append(doubts, r)
			}
		}
		return len(resolved) > 0
	})
	if answer := resolved[0].GetStepResolved(); len(resolved) != 1 || !answer.GetOk() || answer.GetAttempt() != 1 {
		t.Errorf("the call was answered by %v", resolved)
	}
	if (len(doubts) == 1) != doubted {
		t.Errorf("the call was asked about by %v, want it: %t", doubts, doubted)
	}
}

// foreign is the stream of a worker with another implementation.
type foreign struct {
	stream pawlv1.WorkerService_WorkClient
	steps  chan *pawlv1.StepAssignment
	leave  context.CancelFunc
}

// registerForgetful registers a worker that presents nothing, with room for one call.
func registerForgetful(ctx context.Context, t *testing.T, s *sidecar, instance string, received *uint64) *foreign {
	t.Helper()
	ctx, leave := context.WithCancel(ctx)
	t.Cleanup(leave)
	stream, err := pawlv1.NewWorkerServiceClient(s.dial()).Work(ctx)
	if err == nil {
		err = stream.Send(&pawlv1.WorkRequest{
			Item: &pawlv1.WorkRequest_Register{Register: &pawlv1.WorkerRegistration{
				WorkerId: "w", Instance: instance, ReceivedSteps: received, Client: "foreign", Tools: []string{"charge"}, StepCapacity: 1,
			}},
			Credits: &pawlv1.WorkCredits{Steps: 1},
		})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &foreign{stream: stream, steps: make(chan *pawlv1.StepAssignment, 8), leave: leave}
	go func() {
		defer close(f.steps)
		for {
			got, err := stream.Recv()
			if err != nil {
				return
			}
			if got.GetStep() != nil {
				f.steps <- got.GetStep()
			}
		}
	}()
	return f
}

// step waits for a call.
func (f *foreign) step(t *testing.T) *pawlv1.StepAssignment {
	t.Helper()
	select {
	case got := <-f.steps:
		if got.GetLease().GetTool() != "charge" {
			t.Fatalf("assigned %v", got)
		}
		return got
	case <-time.After(patience):
		t.Fatal("no call was assigned")
	}
	return nil
}

// answerPayment answers a call.
func (f *foreign) answerPayment(t *testing.T, a *pawlv1.StepAssignment) {
	t.Helper()
	l := a.GetLease()
	if err := f.stream.Send(&pawlv1.WorkRequest{Id: 1, Item: &pawlv1.WorkRequest_ResolveStep{ResolveStep: &pawlv1.ResolveStepRequest{
		RunId: l.GetRunId(), Step: l.GetStep(), Tool: l.GetTool(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
		Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: `"paid"`},
	}}}); err != nil {
		t.Fatal(err)
	}
}

// endUnused ends the stream, over which no other call has come.
func (f *foreign) endUnused(t *testing.T) {
	t.Helper()
	f.leave()
	for got := range f.steps {
		t.Errorf("the call was assigned again: %v", got)
	}
}
