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
	"github.com/pawl-dev/pawl/internal/runtime"
)

// governedPack has every feature by which people and operators control runs. A change that adds a
// kind of record must also make such a record here: TestGovernedHasEveryKind counts.
const governedPack = `{
  "id": "governed", "name": "Governed", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "evals": [{"id": "short", "type": "max_length", "trigger": "on_session_complete", "params": {"max": 10}}],
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

// governedStore is a store with runs of governedPack, and a sidecar on it.
type governedStore struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	config  config.Config
	local   *Local
	runs    pawlv1.RunServiceClient
	control pawlv1.ControlServiceClient
	// open is the run that waits in the middle of its work. undoneRun was cancelled, and its
	// effects were compensated.
	open, undoneRun string
	// paidStep is the step that has the effect of order 1, heldCall the call that waits for a person.
	paidStep, heldCall *pawlv1.Step
}

// newGoverned drives a sidecar until its store has every kind of row that these features make, and stops it.
func newGoverned(t *testing.T) *governedStore {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	g := &governedStore{t: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "data"), config: config.Default()}
	g.config.AllowTools = []string{"*"}
	g.config.Budgets = writeFile(t, "budgets", "accounts:\n- {label: tenant, window: ever, max_cost_usd: 100}\n- {window: month, max_tokens: 1000000}\n")
	g.config.Schedules = writeFile(t, "schedules", "yearly: {cron: \"@yearly\", pack: governed}\n")
	g.start()
	_, err := pawlv1.NewPackServiceClient(g.local.Conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(governedPack)})
	g.check(err)
	g.leaveOpenRun()
	g.pay()
	g.undo()
	g.stop()
	return g
}

// openOn returns the same sidecar on another directory.
func (g *governedStore) openOn(dir string) *governedStore {
	other := *g
	other.dir = dir
	return &other
}

func (g *governedStore) start() {
	g.t.Helper()
	var err error
	if g.local, err = startLocal(g.config, runtime.SystemClock{}, g.dir); err != nil {
		g.t.Fatal(err)
	}
	g.check(g.local.app.partitions.single().storeSchedules(g.ctx))
	g.runs, g.control = pawlv1.NewRunServiceClient(g.local.Conn), pawlv1.NewControlServiceClient(g.local.Conn)
}

func (g *governedStore) stop() {
	g.t.Helper()
	g.check(g.local.stop())
	g.check(g.local.Conn.Close())
}

func (g *governedStore) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// begin starts a run of the tenant, which its caller drives.
func (g *governedStore) begin() string {
	g.t.Helper()
	got, err := g.runs.StartRun(g.ctx, &pawlv1.StartRunRequest{
		Pack: "governed", Execution: pawlv1.Execution_EXECUTION_CALLER, Labels: map[string]string{"tenant": "acme"},
	})
	g.check(err)
	return got.GetRun().GetRunId()
}

func (g *governedStore) turn(run string) *pawlv1.TurnRef {
	g.t.Helper()
	got, err := g.runs.GetTurn(g.ctx, &pawlv1.GetTurnRequest{RunId: run})
	g.check(err)
	return got.GetTurn()
}

// call asks for a step. The outcome may be a denial.
func (g *governedStore) call(run, key, tool, payload string) *pawlv1.StepOutcome {
	g.t.Helper()
	turn := g.turn(run)
	got, err := g.runs.RequestStep(g.ctx, &pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Key: key, Tool: tool, PayloadJson: payload}},
	})
	g.check(err)
	return got.GetOutcomes()[0]
}

// resolve answers a step as an operator may.
func (g *governedStore) resolve(run string, step uint32, tool, result string) {
	g.t.Helper()
	_, err := g.runs.ResolveStep(g.ctx, &pawlv1.ResolveStepRequest{
		RunId: run, Step: step, Tool: tool, Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: result},
	})
	g.check(err)
}

// ask makes a call of a model with a bound. If used is not 0, ask also answers as the model.
func (g *governedStore) ask(run string, round int32, hear bool, bound, used int64) (*pawlv1.RequestModelResponse, error) {
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
	g.check(err)
	_, err = g.runs.AnswerModel(g.ctx, &pawlv1.AnswerModelRequest{
		RunId: run, Step: got.GetStep().GetStep(), Attempt: 1, TurnToken: turn.GetToken(), Usage: &pawlv1.Usage{OutputTokens: used, Model: "m"},
		Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: &pawlv1.ModelAnswer{Parts: text("so"), FinishReason: "stop"}},
	})
	return got, err
}

func (g *governedStore) steer(run, words string, when pawlv1.SteerWhen) {
	g.t.Helper()
	_, err := g.control.SteerRun(g.ctx, &pawlv1.SteerRunRequest{RunId: run, Text: words, When: when})
	g.check(err)
}

// leaveOpenRun makes the run that stays open. Its budget was exceeded and raised, it was stopped, and it
// continues with a message to read and a call of a model in progress.
func (g *governedStore) leaveOpenRun() {
	g.t.Helper()
	g.open = g.begin()
	_, err := g.ask(g.open, 1, true, 900, 850)
	g.check(err)
	_, err = g.control.RaiseBudget(g.ctx, &pawlv1.RaiseBudgetRequest{RunId: g.open, MaxTokens: 5000, Reason: "it is worth it"})
	g.check(err)
	g.steer(g.open, "Look left.", pawlv1.SteerWhen_STEER_WHEN_NEXT_MODEL_CALL)
	_, err = g.control.StopRun(g.ctx, &pawlv1.StopRunRequest{RunId: g.open, Note: "enough"})
	g.check(err)
	g.steer(g.open, "Go on.", pawlv1.SteerWhen_STEER_WHEN_NOW)
	_, err = g.ask(g.open, 1, true, 100, 0)
	g.check(err)
	g.steer(g.open, "And then right.", pawlv1.SteerWhen_STEER_WHEN_NEXT_MODEL_CALL)
}

func (g *governedStore) decide(step *pawlv1.Step, decision pawlv1.StepDecision, payload string) error {
	_, err := g.control.DecideStep(g.ctx, &pawlv1.DecideStepRequest{
		RunId: g.open, Step: step.GetStep(), Digest: step.GetApproval().GetDigest(), Decision: decision, PayloadJson: payload, Reason: "because",
	})
	return err
}

// pay makes refunds that are approved, edited, denied, refused because they are done
// already, and one that waits.
func (g *governedStore) pay() {
	g.t.Helper()
	var calls []*pawlv1.Step
	for i := range 4 {
		calls = append(calls, g.call(g.open, fmt.Sprint(i), "refund", fmt.Sprintf(`{"order":%d,"amount":5}`, i+1)).GetStep())
	}
	g.paidStep, g.heldCall = calls[0], calls[3]
	g.check(g.decide(calls[0], pawlv1.StepDecision_STEP_DECISION_APPROVE, ""))
	g.check(g.decide(calls[1], pawlv1.StepDecision_STEP_DECISION_EDIT, `{"order":2,"amount":4}`))
	g.check(g.decide(calls[2], pawlv1.StepDecision_STEP_DECISION_DENY, ""))
	g.resolve(g.open, g.paidStep.GetStep(), "refund", `"paid"`)
	g.repeatEffect(g.open)
}

// repeatEffect asks for an effect that another step has.
func (g *governedStore) repeatEffect(run string) {
	g.t.Helper()
	if d := g.call(run, "again", "refund", `{"amount":7,"order":1}`).GetDenial(); d.GetCode() != "DUPLICATE_EFFECT" || !strings.Contains(d.GetMessage(), g.paidStep.GetIdempotencyKey()) {
		g.t.Errorf("order 1 once more: %v", d)
	}
}

// undo makes a run with a charge whose outcome is unknown until the reconcile tool answers. Then
// the run is cancelled, and the charge is compensated.
func (g *governedStore) undo() {
	g.t.Helper()
	g.undoneRun = g.begin()
	charge := g.call(g.undoneRun, "c", "charge", `{"amount":9}`).GetStep()
	g.resolve(g.undoneRun, g.await(g.undoneRun, "charged"), "charged", `{"happened":true,"result":"charged"}`)
	_, err := g.runs.CancelRun(g.ctx, &pawlv1.CancelRunRequest{RunId: g.undoneRun})
	g.check(err)
	g.resolve(g.undoneRun, g.await(g.undoneRun, "unpay"), "unpay", `"back"`)
	got, err := g.runs.WaitRun(g.ctx, &pawlv1.WaitRunRequest{RunId: g.undoneRun})
	if err != nil || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
		g.t.Fatalf("%v, %v, charge %v", got.GetRun(), err, charge)
	}
}

// await waits for the next step of a tool, and returns its number.
func (g *governedStore) await(run, tool string) uint32 {
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

// formatMessage returns a message as text, without the lines that differ between stores.
func (g *governedStore) formatMessage(m proto.Message, err error) string {
	g.t.Helper()
	g.check(err)
	text, err := prototext.MarshalOptions{Multiline: true}.Marshal(m)
	g.check(err)
	return strings.Join(slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.Contains(line, "cursor:")
	}), "\n")
}

// figures returns what the sidecar shows of accounts and schedules.
func (g *governedStore) figures() string {
	budgets, err := g.control.ListBudgets(g.ctx, &pawlv1.ListBudgetsRequest{})
	all := g.formatMessage(budgets, err)
	schedules, err := g.control.ListSchedules(g.ctx, &pawlv1.ListSchedulesRequest{})
	return all + g.formatMessage(schedules, err)
}

// record returns everything that the sidecar shows of a run.
func (g *governedStore) record(run string) string {
	got, err := g.runs.GetRun(g.ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true})
	all := g.formatMessage(got, err)
	approvals, err := g.control.ListApprovals(g.ctx, &pawlv1.ListApprovalsRequest{RunId: run})
	all += g.formatMessage(approvals, err)
	records, err := g.runs.ListTransitions(g.ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageSize: 1000, Kinds: everyKind()})
	return all + g.formatMessage(records, err)
}

func everyKind() (kinds []pawlv1.RecordKind) {
	for kind := range pawlv1.RecordKind_name {
		if kind != 0 {
			kinds = append(kinds, pawlv1.RecordKind(kind))
		}
	}
	return kinds
}

// goesOn proves that what waited still waits, and that what was done still counts. The held call
// can be decided by its digest, a request to a model without the required messages is refused, and
// the refund of order 1 is not paid twice.
func (g *governedStore) goesOn() {
	g.t.Helper()
	if _, err := g.ask(g.open, 2, false, 10, 0); pawl.ReasonOf(err) != "STEERING_MISSING" {
		g.t.Errorf("a request that hears nothing: %v", err)
	}
	g.repeatEffect(g.begin())
	if err := g.decide(g.paidStep, pawlv1.StepDecision_STEP_DECISION_DENY, ""); pawl.ReasonOf(err) != "ALREADY_DECIDED" {
		g.t.Errorf("a second decision: %v", err)
	}
	if err := g.decide(g.heldCall, pawlv1.StepDecision_STEP_DECISION_APPROVE, ""); err != nil {
		g.t.Errorf("the held call: %v", err)
	}
}

// TestGovernedHasEveryKind: the fixture has each kind of record that came with control, and each later kind.
func TestGovernedHasEveryKind(t *testing.T) {
	t.Parallel()
	g := newGoverned(t)
	g.start()
	defer g.stop()
	seen := map[string]bool{}
	for _, run := range []string{g.open, g.undoneRun} {
		page, err := g.runs.ListTransitions(g.ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageSize: 1000, Kinds: everyKind()})
		g.check(err)
		for _, r := range page.GetRecords() {
			seen[string(r.ProtoReflect().WhichOneof(r.ProtoReflect().Descriptor().Oneofs().ByName("body")).Name())] = true
		}
	}
	for number, name := range pawlv1.RecordKind_name {
		// The kinds up to NO_CHANGE are older. The store's own tests make them.
		if field := strings.ToLower(strings.TrimPrefix(name, "RECORD_KIND_")); number > int32(pawlv1.RecordKind_RECORD_KIND_NO_CHANGE) && !seen[field] {
			t.Errorf("no run of the fixture has a %s", field)
		}
	}
}

// TestGovernedStaysTheSame: after any operation of an operator on a store, accounts, business keys,
// approvals, messages to runs and schedules are what they were, and still count.
func TestGovernedStaysTheSame(t *testing.T) {
	t.Parallel()
	g := newGoverned(t)
	g.start()
	figures, open, undone := g.figures(), g.record(g.open), g.record(g.undoneRun)
	g.stop()
	if strings.Count(figures, "settled_cost_micro_usd") < 1 || strings.Count(figures, "reserved_cost_micro_usd") < 1 || !strings.Contains(figures, "yearly") {
		t.Fatalf("the figures are %s", figures)
	}
	for name, c := range map[string]struct {
		do func(g *governedStore) (dir string)
		// gone says that the undone run has changed.
		gone bool
	}{
		"opened again":    {do: func(g *governedStore) string { return g.dir }},
		"backup":          {do: func(g *governedStore) string { return g.backedUp(false) }},
		"backup chain":    {do: func(g *governedStore) string { return g.backedUp(true) }},
		"compact":         {do: (*governedStore).compacted},
		"repair":          {do: (*governedStore).repair},
		"salvage":         {do: (*governedStore).salvaged},
		"erase, salvage":  {do: func(g *governedStore) string { g.erased(); return g.salvaged() }, gone: true},
		"migrate":         {do: (*governedStore).migrated},
		"erase":           {do: (*governedStore).erased, gone: true},
		"delete":          {do: (*governedStore).deleted, gone: true},
		"delete, salvage": {do: func(g *governedStore) string { g.deleted(); return g.salvaged() }, gone: true},
		"delete, repair":  {do: func(g *governedStore) string { g.deleted(); return g.repair() }, gone: true},
		"delete, backup":  {do: func(g *governedStore) string { g.deleted(); return g.backedUp(false) }, gone: true},
		"erase, compact":  {do: func(g *governedStore) string { g.erased(); return g.compacted() }, gone: true},
		"erase, backup":   {do: func(g *governedStore) string { g.erased(); return g.backedUp(true) }, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(g.dir)); err != nil {
				t.Fatal(err)
			}
			own := g.openOn(dir)
			own.t = t
			after := own.openOn(c.do(own))
			after.inOrder()
			after.start()
			if got := after.figures(); got != figures {
				t.Errorf("the figures are\n%s, were\n%s", got, figures)
			}
			if got := after.record(g.open); got != open {
				t.Errorf("the open run is\n%s, was\n%s", got, open)
			}
			if !c.gone && after.record(g.undoneRun) != undone {
				t.Errorf("the undone run is\n%s, was\n%s", after.record(g.undoneRun), undone)
			}
			after.goesOn()
			after.stop()
			after.inOrder()
		})
	}
}

// inOrder checks and verifies the stopped store.
func (g *governedStore) inOrder() {
	g.t.Helper()
	report, err := Check(g.ctx, Data{Dir: g.dir})
	if err != nil || report.Accounts != 2 {
		g.t.Errorf("%+v, %v", report, err)
	}
}

// backedUp restores a backup, or a full backup and an incremental one.
func (g *governedStore) backedUp(chain bool) string {
	g.t.Helper()
	to, from := BackupTo{Dir: g.t.TempDir()}, Data{Dir: g.dir}
	g.check(Backup(g.ctx, from, to, func(BackupDone) {}))
	if chain {
		g.check(Backup(g.ctx, from, to, func(done BackupDone) {
			if done.BasedOn == "" {
				g.t.Errorf("%+v", done)
			}
		}))
	}
	dir := filepath.Join(g.t.TempDir(), "restored")
	_, _, err := Restore(g.ctx, RestoreFrom{Dir: to.Dir}, Data{Dir: dir})
	g.check(err)
	return dir
}

func (g *governedStore) compacted() string {
	g.t.Helper()
	_, err := Compact(g.ctx, Data{Dir: g.dir}, "")
	g.check(err)
	return g.dir
}

// salvaged returns the directory that a salvage of a whole directory makes.
func (g *governedStore) salvaged() string {
	g.t.Helper()
	to := g.dir + ".salvaged"
	done, err := Salvage(g.ctx, Data{Dir: g.dir}, to)
	g.check(err)
	if len(done.Damage)+len(done.LeftOut)+len(done.Removed)+len(done.Named) > 0 {
		g.t.Errorf("salvaged %+v", done)
	}
	return to
}

func (g *governedStore) repair() string {
	g.t.Helper()
	g.check(Repair(g.ctx, Data{Dir: g.dir}, func(_ int32, done CheckRepair) {
		if len(done.Rows) > 0 || len(done.Broken) > 0 {
			g.t.Errorf("repaired %+v", done)
		}
	}))
	return g.dir
}

// migrated returns the same directory, because no older format has these features.
func (g *governedStore) migrated() string {
	g.t.Helper()
	done, err := Migrate(g.ctx, Data{Dir: g.dir}, "")
	if err != nil || done.From != done.To {
		g.t.Errorf("migrated %+v, %v", done, err)
	}
	return g.dir
}

func (g *governedStore) erased() string {
	g.t.Helper()
	g.start()
	_, err := g.runs.EraseRun(g.ctx, &pawlv1.EraseRunRequest{RunId: g.undoneRun, Reason: "the subject asked"})
	g.check(err)
	g.stop()
	return g.dir
}

func (g *governedStore) deleted() string {
	g.t.Helper()
	g.start()
	_, err := g.runs.DeleteRun(g.ctx, &pawlv1.DeleteRunRequest{RunId: g.undoneRun})
	g.check(err)
	g.stop()
	return g.dir
}
