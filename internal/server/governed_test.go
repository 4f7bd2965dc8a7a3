package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/services"
)

// governedPack has everything by which people and operators have a word in runs. Whoever adds
// a kind of record adds here what makes it: TestGovernedHasEveryKind counts.
const governedPack = `{
  "id": "governed", "name": "Governed", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {"clerk": {"id": "clerk", "name": "Clerk", "version": "1.0.0", "system_template": "Work.", "tools": ["refund", "charge"]}},
  "tools": {
    "refund": {"name": "refund", "description": "Gives back"}, "charge": {"name": "charge", "description": "Takes money"},
    "charged": {"name": "charged", "description": "Says whether money was taken"}, "unpay": {"name": "unpay", "description": "Gives it back"}
  },
  "workflow": {
    "version": 2, "entry": "work",
    "engine": {"x_pawl": {
      "erasable": true, "max_tokens": 1000, "max_cost_usd": 2.5, "prices": {"m": {"input": 1, "output": 1}},
      "tools": {
        "refund": {"approve": "always", "dedupe": ["order"], "cost": 0.02},
        "charge": {"timeout_sec": 1, "attempts": 2, "on_unknown": "reconcile", "reconcile": "charged", "compensate": "unpay", "cost": 0.05}
      }
    }},
    "states": {
      "work": {"prompt_task": "clerk", "on_event": {"Done": "end"}},
      "end": {"prompt_task": "clerk", "terminal": true}
    }
  }
}`

// governed is a store with all that, and a sidecar on it.
type governed struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	config  config.Config
	local   *Local
	runs    pawlv1.RunServiceClient
	control pawlv1.ControlServiceClient
	// open waits in the middle of its work, undone was cancelled, and its effects undone.
	open, undone string
	// paid is the step that has the effect of order 1, held the call that waits for a person.
	paid, held *pawlv1.Step
}

// newGoverned drives a sidecar to where every kind of row of theirs is in its store, and stops it.
func newGoverned(t *testing.T) *governed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	g := &governed{t: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "data"), config: config.Default()}
	g.config.AllowTools = []string{"*"}
	g.config.Budgets = writeFile(t, "budgets", "accounts:\n- {label: tenant, window: ever, max_cost_usd: 100}\n- {window: month, max_tokens: 1000000}\n")
	g.config.Schedules = writeFile(t, "schedules", "yearly: {cron: \"@yearly\", pack: governed}\n")
	g.start()
	_, err := pawlv1.NewPackServiceClient(g.local.Conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(governedPack)})
	g.must(err)
	g.talk()
	g.pay()
	g.undo()
	g.stop()
	return g
}

// on is the same sidecar on another directory.
func (g *governed) on(dir string) *governed {
	other := *g
	other.dir = dir
	return &other
}

func (g *governed) start() {
	g.t.Helper()
	var err error
	if g.local, err = startLocal(g.config, services.SystemClock{}, g.dir); err != nil {
		g.t.Fatal(err)
	}
	g.must(g.local.app.partitions.own().agree(g.ctx))
	g.runs, g.control = pawlv1.NewRunServiceClient(g.local.Conn), pawlv1.NewControlServiceClient(g.local.Conn)
}

func (g *governed) stop() {
	g.t.Helper()
	g.must(g.local.stop())
	g.must(g.local.Conn.Close())
}

func (g *governed) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// begin starts a run of the tenant, which its caller drives.
func (g *governed) begin() string {
	g.t.Helper()
	got, err := g.runs.StartRun(g.ctx, &pawlv1.StartRunRequest{
		Pack: "governed", Execution: pawlv1.Execution_EXECUTION_CALLER, Labels: map[string]string{"tenant": "acme"},
	})
	g.must(err)
	return got.GetRun().GetRunId()
}

func (g *governed) turn(run string) *pawlv1.TurnRef {
	g.t.Helper()
	got, err := g.runs.GetTurn(g.ctx, &pawlv1.GetTurnRequest{RunId: run})
	g.must(err)
	return got.GetTurn()
}

// call asks for a step; the outcome may be a denial.
func (g *governed) call(run, key, tool, payload string) *pawlv1.StepOutcome {
	g.t.Helper()
	turn := g.turn(run)
	got, err := g.runs.RequestStep(g.ctx, &pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Key: key, Tool: tool, PayloadJson: payload}},
	})
	g.must(err)
	return got.GetOutcomes()[0]
}

// resolve answers a step as an operator may.
func (g *governed) resolve(run string, step uint32, tool, result string) {
	g.t.Helper()
	_, err := g.runs.ResolveStep(g.ctx, &pawlv1.ResolveStepRequest{
		RunId: run, Step: step, Tool: tool, Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: result},
	})
	g.must(err)
}

// ask makes a call of a model with a bound; answered as the model if there is an answer.
func (g *governed) ask(run string, round int32, hear bool, bound, used int64) (*pawlv1.RequestModelResponse, error) {
	turn := g.turn(run)
	got, err := g.runs.RequestModel(g.ctx, &pawlv1.RequestModelRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Round: round, IncludeRequired: hear,
		Bound: &pawlv1.Usage{OutputTokens: bound}, Request: &pawlv1.ModelRequest{Model: "m", Messages: []*pawlv1.ModelMessage{
			{Content: &pawlv1.ModelMessage_Message{Message: &pawlv1.Message{Role: "user", Parts: text("go on")}}},
		}},
	})
	if err != nil || used == 0 {
		return got, err
	}
	_, err = g.runs.UpdateModelCall(g.ctx, &pawlv1.UpdateModelCallRequest{RunId: run, Step: got.GetStep().GetStep(), Attempt: 1, TurnToken: turn.GetToken(), ResponseId: "resp"})
	g.must(err)
	_, err = g.runs.AnswerModel(g.ctx, &pawlv1.AnswerModelRequest{
		RunId: run, Step: got.GetStep().GetStep(), Attempt: 1, TurnToken: turn.GetToken(), Usage: &pawlv1.Usage{OutputTokens: used, Model: "m"},
		Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: &pawlv1.ModelAnswer{Parts: text("so"), FinishReason: "stop"}},
	})
	return got, err
}

func (g *governed) steer(run, words string, when pawlv1.SteerWhen) {
	g.t.Helper()
	_, err := g.control.SteerRun(g.ctx, &pawlv1.SteerRunRequest{RunId: run, Text: words, When: when})
	g.must(err)
}

// talk makes the run that stays open: it was told of its budget, raised, stopped, and goes on
// with something to hear and a call of a model under way.
func (g *governed) talk() {
	g.t.Helper()
	g.open = g.begin()
	_, err := g.ask(g.open, 1, true, 900, 850)
	g.must(err)
	_, err = g.control.RaiseBudget(g.ctx, &pawlv1.RaiseBudgetRequest{RunId: g.open, MaxTokens: 5000, Reason: "it is worth it"})
	g.must(err)
	g.steer(g.open, "Look left.", pawlv1.SteerWhen_STEER_WHEN_NEXT_MODEL_CALL)
	_, err = g.control.StopRun(g.ctx, &pawlv1.StopRunRequest{RunId: g.open, Note: "enough"})
	g.must(err)
	g.steer(g.open, "Go on.", pawlv1.SteerWhen_STEER_WHEN_NOW)
	_, err = g.ask(g.open, 1, true, 100, 0)
	g.must(err)
	g.steer(g.open, "And then right.", pawlv1.SteerWhen_STEER_WHEN_NEXT_MODEL_CALL)
}

func (g *governed) decide(step *pawlv1.Step, decision pawlv1.StepDecision, payload string) error {
	_, err := g.control.DecideStep(g.ctx, &pawlv1.DecideStepRequest{
		RunId: g.open, Step: step.GetStep(), Digest: step.GetApproval().GetDigest(), Decision: decision, PayloadJson: payload, Reason: "because",
	})
	return err
}

// pay has refunds approved, changed, denied, refused as done before, and one that waits.
func (g *governed) pay() {
	g.t.Helper()
	var calls []*pawlv1.Step
	for i := range 4 {
		calls = append(calls, g.call(g.open, fmt.Sprint(i), "refund", fmt.Sprintf(`{"order":%d,"amount":5}`, i+1)).GetStep())
	}
	g.paid, g.held = calls[0], calls[3]
	g.must(g.decide(calls[0], pawlv1.StepDecision_STEP_DECISION_APPROVE, ""))
	g.must(g.decide(calls[1], pawlv1.StepDecision_STEP_DECISION_EDIT, `{"order":2,"amount":4}`))
	g.must(g.decide(calls[2], pawlv1.StepDecision_STEP_DECISION_DENY, ""))
	g.resolve(g.open, g.paid.GetStep(), "refund", `"paid"`)
	g.twice(g.open)
}

// twice asks for an effect that another step has.
func (g *governed) twice(run string) {
	g.t.Helper()
	if d := g.call(run, "again", "refund", `{"amount":7,"order":1}`).GetDenial(); d.GetCode() != "DUPLICATE_EFFECT" || !strings.Contains(d.GetMessage(), g.paid.GetIdempotencyKey()) {
		g.t.Errorf("order 1 once more: %v", d)
	}
}

// undo makes a run of whose charge nobody knows, until somebody is asked; it is cancelled, and
// the charge undone.
func (g *governed) undo() {
	g.t.Helper()
	g.undone = g.begin()
	charge := g.call(g.undone, "c", "charge", `{"amount":9}`).GetStep()
	g.resolve(g.undone, g.await(g.undone, "charged"), "charged", `{"happened":true,"result":"charged"}`)
	_, err := g.runs.CancelRun(g.ctx, &pawlv1.CancelRunRequest{RunId: g.undone})
	g.must(err)
	g.resolve(g.undone, g.await(g.undone, "unpay"), "unpay", `"back"`)
	got, err := g.runs.WaitRun(g.ctx, &pawlv1.WaitRunRequest{RunId: g.undone})
	if err != nil || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
		g.t.Fatalf("%v, %v, charge %v", got.GetRun(), err, charge)
	}
}

// await is the number of the next step of a tool, once it is asked for.
func (g *governed) await(run, tool string) uint32 {
	g.t.Helper()
	stream, err := g.runs.StreamTransitions(g.ctx, &pawlv1.StreamTransitionsRequest{
		RunId: run, Follow: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED},
	})
	for err == nil {
		var got *pawlv1.StreamTransitionsResponse
		if got, err = stream.Recv(); got.GetRecord().GetStepRequested().GetTool() == tool {
			return got.GetRecord().GetStepRequested().GetStep()
		}
	}
	g.t.Fatalf("%s is not asked for: %v", tool, err)
	return 0
}

// told is a message as text, without what is a store's own.
func (g *governed) told(m proto.Message, err error) string {
	g.t.Helper()
	g.must(err)
	text, err := prototext.MarshalOptions{Multiline: true}.Marshal(m)
	g.must(err)
	return strings.Join(slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.Contains(line, "cursor:")
	}), "\n")
}

// figures are what is told of accounts and schedules.
func (g *governed) figures() string {
	budgets, err := g.control.ListBudgets(g.ctx, &pawlv1.ListBudgetsRequest{})
	all := g.told(budgets, err)
	schedules, err := g.control.ListSchedules(g.ctx, &pawlv1.ListSchedulesRequest{})
	return all + g.told(schedules, err)
}

// record is everything that is told of a run.
func (g *governed) record(run string) string {
	got, err := g.runs.GetRun(g.ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true})
	all := g.told(got, err)
	approvals, err := g.control.ListApprovals(g.ctx, &pawlv1.ListApprovalsRequest{RunId: run})
	all += g.told(approvals, err)
	records, err := g.runs.ListTransitions(g.ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageSize: 1000, Kinds: everyKind()})
	return all + g.told(records, err)
}

func everyKind() (kinds []pawlv1.RecordKind) {
	for kind := range pawlv1.RecordKind_name {
		if kind != 0 {
			kinds = append(kinds, pawlv1.RecordKind(kind))
		}
	}
	return kinds
}

// goesOn proves that what waits still does, and that what was done counts: the held call is
// decided about by its digest, what has to be heard is, and nobody pays order 1 twice.
func (g *governed) goesOn() {
	g.t.Helper()
	if _, err := g.ask(g.open, 2, false, 10, 0); pawl.ReasonOf(err) != "STEERING_MISSING" {
		g.t.Errorf("a request that hears nothing: %v", err)
	}
	g.twice(g.begin())
	if err := g.decide(g.paid, pawlv1.StepDecision_STEP_DECISION_DENY, ""); pawl.ReasonOf(err) != "ALREADY_DECIDED" {
		g.t.Errorf("a second decision: %v", err)
	}
	if err := g.decide(g.held, pawlv1.StepDecision_STEP_DECISION_APPROVE, ""); err != nil {
		g.t.Errorf("the held call: %v", err)
	}
}

// TestGovernedHasEveryKind: the fixture has each kind of record that came with control, and
// those that come later.
func TestGovernedHasEveryKind(t *testing.T) {
	t.Parallel()
	g := newGoverned(t)
	g.start()
	defer g.stop()
	seen := map[string]bool{}
	for _, run := range []string{g.open, g.undone} {
		page, err := g.runs.ListTransitions(g.ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageSize: 1000, Kinds: everyKind()})
		g.must(err)
		for _, r := range page.GetRecords() {
			seen[string(r.ProtoReflect().WhichOneof(r.ProtoReflect().Descriptor().Oneofs().ByName("body")).Name())] = true
		}
	}
	for number, name := range pawlv1.RecordKind_name {
		// Those up to NOTED are older, and made by the worlds of the store's own tests.
		if field := strings.ToLower(strings.TrimPrefix(name, "RECORD_KIND_")); number > int32(pawlv1.RecordKind_RECORD_KIND_NO_CHANGE) && !seen[field] {
			t.Errorf("no run of the fixture has a %s", field)
		}
	}
}

// TestGovernedStaysTheSame: whatever an operator does with a store, accounts, business keys,
// approvals, what was said to runs and schedules are what they were, and count.
func TestGovernedStaysTheSame(t *testing.T) {
	t.Parallel()
	g := newGoverned(t)
	g.start()
	figures, open, undone := g.figures(), g.record(g.open), g.record(g.undone)
	g.stop()
	if strings.Count(figures, "settled_cost_micro_usd") < 1 || strings.Count(figures, "reserved_cost_micro_usd") < 1 || !strings.Contains(figures, "yearly") {
		t.Fatalf("the figures are %s", figures)
	}
	for name, c := range map[string]struct {
		do func(g *governed) (dir string)
		// gone: the undone run is no more what it was.
		gone bool
	}{
		"opened again":   {do: func(g *governed) string { return g.dir }},
		"backup":         {do: func(g *governed) string { return g.backedUp(false) }},
		"backup chain":   {do: func(g *governed) string { return g.backedUp(true) }},
		"compact":        {do: (*governed).compacted},
		"repair":         {do: (*governed).repaired},
		"migrate":        {do: (*governed).migrated},
		"erase":          {do: (*governed).erased, gone: true},
		"delete":         {do: (*governed).deleted, gone: true},
		"delete, repair": {do: func(g *governed) string { g.deleted(); return g.repaired() }, gone: true},
		"delete, backup": {do: func(g *governed) string { g.deleted(); return g.backedUp(false) }, gone: true},
		"erase, compact": {do: func(g *governed) string { g.erased(); return g.compacted() }, gone: true},
		"erase, backup":  {do: func(g *governed) string { g.erased(); return g.backedUp(true) }, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(g.dir)); err != nil {
				t.Fatal(err)
			}
			own := g.on(dir)
			own.t = t
			after := own.on(c.do(own))
			after.inOrder()
			after.start()
			if got := after.figures(); got != figures {
				t.Errorf("the figures are\n%s, were\n%s", got, figures)
			}
			if got := after.record(g.open); got != open {
				t.Errorf("the open run is\n%s, was\n%s", got, open)
			}
			if !c.gone && after.record(g.undone) != undone {
				t.Errorf("the undone run is\n%s, was\n%s", after.record(g.undone), undone)
			}
			after.goesOn()
			after.stop()
			after.inOrder()
		})
	}
}

// inOrder proves the stopped store.
func (g *governed) inOrder() {
	g.t.Helper()
	report, err := Check(g.ctx, Data{Dir: g.dir})
	if err != nil || report.Accounts != 2 {
		g.t.Errorf("%+v, %v", report, err)
	}
}

// backedUp restores a backup, or two of which one follows on the other.
func (g *governed) backedUp(chain bool) string {
	g.t.Helper()
	to, from := BackupTo{Dir: g.t.TempDir()}, Data{Dir: g.dir}
	g.must(Backup(g.ctx, from, to, func(BackupDone) {}))
	if chain {
		g.must(Backup(g.ctx, from, to, func(done BackupDone) {
			if done.BasedOn == "" {
				g.t.Errorf("%+v", done)
			}
		}))
	}
	dir := filepath.Join(g.t.TempDir(), "restored")
	_, _, err := Restore(g.ctx, RestoreFrom{Dir: to.Dir}, Data{Dir: dir})
	g.must(err)
	return dir
}

func (g *governed) compacted() string {
	g.t.Helper()
	_, err := Compact(g.ctx, Data{Dir: g.dir}, "")
	g.must(err)
	return g.dir
}

func (g *governed) repaired() string {
	g.t.Helper()
	g.must(Repair(g.ctx, Data{Dir: g.dir}, func(_ int32, done CheckRepair) {
		if len(done.Rows) > 0 || len(done.Broken) > 0 {
			g.t.Errorf("repaired %+v", done)
		}
	}))
	return g.dir
}

// migrated is as it was: no older format has any of it.
func (g *governed) migrated() string {
	g.t.Helper()
	done, err := Migrate(g.ctx, Data{Dir: g.dir}, "")
	if err != nil || done.From != done.To {
		g.t.Errorf("migrated %+v, %v", done, err)
	}
	return g.dir
}

func (g *governed) erased() string {
	g.t.Helper()
	g.start()
	_, err := g.runs.EraseRun(g.ctx, &pawlv1.EraseRunRequest{RunId: g.undone, Reason: "the subject asked"})
	g.must(err)
	g.stop()
	return g.dir
}

func (g *governed) deleted() string {
	g.t.Helper()
	g.start()
	_, err := g.runs.DeleteRun(g.ctx, &pawlv1.DeleteRunRequest{RunId: g.undone})
	g.must(err)
	g.stop()
	return g.dir
}
