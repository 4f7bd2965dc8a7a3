package grpcapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/services"
)

// controlled is the loop pack with these settings.
func controlled(id, settings string) []byte {
	return []byte(strings.NewReplacer(`"id": "loop"`, `"id": "`+id+`"`, `"x_pawl": {`, `"x_pawl": {`+settings+`,`).Replace(string(loopPack)))
}

// startRun starts a run of a pack in a namespace. Its turn requests a call of run_tests for each path.
func (r *rig) startRun(ctx context.Context, namespace, pack string, paths ...string) *pawlv1.TurnRef {
	r.t.Helper()
	req := startRequest()
	req.Namespace, req.Pack = namespace, pack
	started, err := r.runs.StartRun(ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	turn := started.GetTurn()
	ask := &pawlv1.RequestStepRequest{Namespace: namespace, RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken()}
	for _, path := range paths {
		ask.Requests = append(ask.Requests, &pawlv1.StepRequest{Tool: "run_tests", PayloadJson: fmt.Sprintf(`{"path":%q}`, path)})
	}
	if len(paths) > 0 {
		if _, err := r.runs.RequestStep(ctx, ask); err != nil {
			r.t.Fatal(err)
		}
	}
	return turn
}

func (r *rig) register1(ctx context.Context, namespace string, content []byte) {
	r.t.Helper()
	if _, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Namespace: namespace, Content: content}); err != nil {
		r.t.Fatal(err)
	}
}

// digestOf returns the approval digest of a run's step, as ListApprovals shows it.
func (r *rig) digestOf(ctx context.Context, namespace, run string, step int) string {
	r.t.Helper()
	control := pawlv1.NewControlServiceClient(r.conn)
	got, err := control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{Namespace: namespace, RunId: run})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, a := range got.GetApprovals() {
		if a.GetCall().GetStep() == uint32(step) {
			return a.GetCall().GetApproval().GetDigest()
		}
	}
	r.t.Fatalf("step %d of run %s waits for nothing: %v", step, run, got)
	return ""
}

// TestBadControl: a digest of another call, a decision on a call that is over, a raise that raises nothing,
// and negative figures get typed errors. Nothing is recorded, spent or run.
func TestBadControl(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	control := pawlv1.NewControlServiceClient(r.conn)
	r.register1(ctx, "", controlled("held", `"max_tokens": 1000, "tools": {"run_tests": {"approve": "always"}}`))
	yesterday, today, ended := r.startRun(ctx, "", "held", "a"), r.startRun(ctx, "", "held", "a", "b"), r.startRun(ctx, "", "held", "a")
	old, digest, late := r.digestOf(ctx, "", yesterday.GetRunId(), 1), r.digestOf(ctx, "", today.GetRunId(), 1), r.digestOf(ctx, "", ended.GetRunId(), 1)
	r.register1(ctx, "", controlled("free", `"max_steps": 100`))
	free := r.startRun(ctx, "", "free", "a")
	decide := func(change func(*pawlv1.DecideStepRequest)) func() error {
		return func() error {
			req := &pawlv1.DecideStepRequest{RunId: today.GetRunId(), Step: 1, Digest: digest, Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE}
			change(req)
			_, err := control.DecideStep(ctx, req)
			return err
		}
	}
	raise := func(run string, tokens, cost int64, reason string) func() error {
		return func() error {
			_, err := control.RaiseBudget(ctx, &pawlv1.RaiseBudgetRequest{RunId: run, MaxTokens: tokens, MaxCostMicroUsd: cost, Reason: reason})
			return err
		}
	}
	if err := decide(func(d *pawlv1.DecideStepRequest) {
		d.Step, d.Digest, d.Decision = 2, r.digestOf(ctx, "", today.GetRunId(), 2), pawlv1.StepDecision_STEP_DECISION_DENY
	})(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: ended.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	commits := r.store.Commits()
	for _, c := range []struct {
		name   string
		call   func() error
		code   codes.Code
		reason string
		words  []string
	}{
		{"digest of yesterday", decide(func(d *pawlv1.DecideStepRequest) { d.Digest = old }), codes.FailedPrecondition, "DIGEST_MISMATCH", []string{"digest"}},
		{"digest that is none", decide(func(d *pawlv1.DecideStepRequest) { d.Digest = "sha256:12" }), codes.InvalidArgument, "INVALID_REQUEST", []string{"digest"}},
		{"decision on an ended step", decide(func(d *pawlv1.DecideStepRequest) { d.Step = 2 }), codes.FailedPrecondition, "ALREADY_DECIDED", []string{"step 2 was denied by"}},
		{"decision on an ended run", decide(func(d *pawlv1.DecideStepRequest) { d.RunId, d.Digest = ended.GetRunId(), late }), codes.FailedPrecondition, "RUN_TERMINAL", nil},
		{"decision on a step to come", decide(func(d *pawlv1.DecideStepRequest) { d.Step = 9 }), codes.FailedPrecondition, "NOTHING_TO_DECIDE", []string{"step 9"}},
		{"decision on a free call", decide(func(d *pawlv1.DecideStepRequest) { d.RunId = free.GetRunId() }), codes.FailedPrecondition, "NOTHING_TO_DECIDE", []string{"step 1"}},
		{"no decision", decide(func(d *pawlv1.DecideStepRequest) { d.Decision = 0 }), codes.InvalidArgument, "INVALID_REQUEST", []string{"decision"}},
		{"expired decision", decide(func(d *pawlv1.DecideStepRequest) { d.Expires = timestamppb.New(r.clock.Now().Add(-time.Second)) }), codes.InvalidArgument, "EXPIRES_IN_PAST", []string{"expires"}},
		{"edit to what the tool does not take", decide(func(d *pawlv1.DecideStepRequest) {
			d.Decision, d.PayloadJson = pawlv1.StepDecision_STEP_DECISION_EDIT, `{"path":7}`
		}), codes.InvalidArgument, "EDIT_REFUSED", []string{"payload_json"}},
		{"edit with a key twice", decide(func(d *pawlv1.DecideStepRequest) {
			d.Decision, d.PayloadJson = pawlv1.StepDecision_STEP_DECISION_EDIT, `{"path":"a","path":"b"}`
		}), codes.InvalidArgument, "INVALID_JSON", []string{"twice"}},
		{"edit that is no JSON", decide(func(d *pawlv1.DecideStepRequest) {
			d.Decision, d.PayloadJson = pawlv1.StepDecision_STEP_DECISION_EDIT, `{`
		}), codes.InvalidArgument, "INVALID_JSON", []string{"payload_json"}},
		{"answer to a held call", func() error {
			_, err := r.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{RunId: today.GetRunId(), TurnToken: today.GetToken(), Step: 1, Tool: "run_tests", Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: "1"}})
			return err
		}, codes.FailedPrecondition, "STEP_HELD", []string{"step"}},
		{"usage below zero", func() error {
			_, err := r.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
				RunId: free.GetRunId(), TurnToken: free.GetToken(), Step: 1, Tool: "run_tests", Attempt: 1, Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: "1"}, Usage: &pawlv1.Usage{CostMicroUsd: -1},
			})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"usage.cost_micro_usd"}},
		{"raise below zero", raise(today.GetRunId(), -1, 0, "why"), codes.InvalidArgument, "INVALID_REQUEST", []string{"max_tokens"}},
		{"raise that is none", raise(today.GetRunId(), 1000, 0, "why"), codes.FailedPrecondition, "BUDGET_NOT_RAISED", []string{"1000"}},
		{"raise of no limit", raise(today.GetRunId(), 0, 5, "why"), codes.FailedPrecondition, "BUDGET_UNLIMITED", []string{"max_cost_micro_usd"}},
		{"raise to nothing", raise(today.GetRunId(), 0, 0, "why"), codes.InvalidArgument, "NO_BUDGET", nil},
		{"raise without a reason", raise(today.GetRunId(), 2000, 0, ""), codes.InvalidArgument, "INVALID_REQUEST", []string{"reason"}},
		{"raise of an ended run", raise(ended.GetRunId(), 2000, 0, "why"), codes.FailedPrecondition, "RUN_TERMINAL", nil},
		{"steering without words", func() error {
			_, err := control.SteerRun(ctx, &pawlv1.SteerRunRequest{RunId: today.GetRunId()})
			return err
		}, codes.InvalidArgument, "INVALID_REQUEST", []string{"text"}},
		{"steering of an ended run", func() error {
			_, err := control.SteerRun(ctx, &pawlv1.SteerRunRequest{RunId: ended.GetRunId(), Text: "x"})
			return err
		}, codes.FailedPrecondition, "RUN_TERMINAL", nil},
		{"approvals of a page that is none", func() error {
			_, err := control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{PageToken: "x"})
			return err
		}, codes.InvalidArgument, "BAD_PAGE_TOKEN", []string{"page_token"}},
	} {
		st := wantError(t, c.call(), c.code, c.reason)
		for _, word := range c.words {
			if !strings.Contains(st.Message(), word) {
				t.Errorf("%s: %q says nothing of %q", c.name, st.Message(), word)
			}
		}
		if strings.Contains(st.String(), strings.TrimPrefix(digest, "sha256:")) {
			t.Errorf("%s: the digest of the call that waits is told: %v", c.name, st)
		}
	}
	if got := r.store.Commits(); got != commits {
		t.Errorf("%d commits more", got-commits)
	}
}

// TestNobodyDecidesBlind: a principal that may approve, but may not see a sensitive payload, learns nothing
// about the payload from decisions. The right digest, a wrong one and edits of each kind are refused alike.
// The principal can decide a call of a tool that is not sensitive.
func TestNobodyDecidesBlind(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	r := newRig(t, withTokens, func(c *Config, _ *services.Config) {
		c.Tokens = append(c.Tokens, auth.Token{Principal: "clerk", Secret: secretOf("clerk"), Scopes: policy.RunsRead | policy.StepsApprove})
	})
	control := pawlv1.NewControlServiceClient(r.conn)
	driver, clerk, admin := withToken(ctx, "driver"), withToken(ctx, "clerk"), withToken(ctx, "admin")
	for pack, sensitive := range map[string]string{
		"named": `"sensitive": {"tools": ["run_tests"]}`,
		"bound": `"result_bindings": {"run_tests": "log"}, "sensitive": {"artifacts": ["log"]}`,
		"asked": `"sensitive": {"tools": ["write_file"]}`,
	} {
		tools := `"tools": {"run_tests": {"approve": "always", "dedupe": ["path"]}}`
		if pack == "asked" {
			tools = `"tools": {"run_tests": {"approve": "always", "dedupe": ["path"], "on_unknown": "reconcile", "reconcile": "write_file"}}`
		}
		r.register1(driver, "", controlled(pack, tools+", "+sensitive))
		run := r.startRun(driver, "", pack, pack).GetRunId()
		if seen := r.digestOf(clerk, "", run, 1); seen != "" {
			t.Fatalf("%s: the clerk is told the digest %s", pack, seen)
		}
		digest := r.digestOf(admin, "", run, 1)
		for name, change := range map[string]func(*pawlv1.DecideStepRequest){
			"the right digest": func(*pawlv1.DecideStepRequest) {},
			"a wrong digest":   func(d *pawlv1.DecideStepRequest) { d.Digest = "sha256:" + strings.Repeat("0", 64) },
			"a denial":         func(d *pawlv1.DecideStepRequest) { d.Decision = pawlv1.StepDecision_STEP_DECISION_DENY },
			"an edit to another effect": func(d *pawlv1.DecideStepRequest) {
				d.Decision, d.PayloadJson = pawlv1.StepDecision_STEP_DECISION_EDIT, `{"path":"b"}`
			},
			"an edit": func(d *pawlv1.DecideStepRequest) {
				d.Decision, d.PayloadJson = pawlv1.StepDecision_STEP_DECISION_EDIT, fmt.Sprintf(`{"path":%q}`, pack)
			},
		} {
			req := &pawlv1.DecideStepRequest{RunId: run, Step: 1, Digest: digest, Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE}
			change(req)
			_, err := control.DecideStep(clerk, req)
			st := wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
			if !strings.Contains(st.Message(), "values:sensitive") {
				t.Errorf("%s, %s: %v", pack, name, st)
			}
		}
		if _, err := control.DecideStep(admin, &pawlv1.DecideStepRequest{RunId: run, Step: 1, Digest: digest, Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE}); err != nil {
			t.Errorf("%s: who may see all: %v", pack, err)
		}
		for _, c := range []struct {
			caller context.Context
			hidden bool
		}{{clerk, true}, {admin, false}} {
			made, err := control.ListDecisions(c.caller, &pawlv1.ListDecisionsRequest{RunId: run})
			if err != nil || len(made.GetDecisions()) != 1 || (made.GetDecisions()[0].GetRecord().GetStepDecided().GetDigest() == "") != c.hidden {
				t.Errorf("%s: the history is %v, %v", pack, made, err)
			}
		}
	}
	r.register1(driver, "", controlled("open", `"tools": {"run_tests": {"approve": "always"}}, "sensitive": {"tools": ["write_file"]}`))
	run := r.startRun(driver, "", "open", "a").GetRunId()
	if _, err := control.DecideStep(clerk, &pawlv1.DecideStepRequest{RunId: run, Step: 1, Digest: r.digestOf(clerk, "", run, 1), Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE}); err != nil {
		t.Errorf("a call that is not sensitive: %v", err)
	}
}

// TestBadPacksOfControl: what a pack says of approvals and money is checked when it is
// registered.
func TestBadPacksOfControl(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	for settings, word := range map[string]string{
		`"tools": {"run_tests": {"approve": "payload."}}`:                               "condition: 1:9: Syntax error",
		`"tools": {"run_tests": {"approve": "payload.amount + 1.0"}}`:                   "it gives double, want bool",
		`"tools": {"run_tests": {"approve": "nobody.amount > 1.0"}}`:                    "undeclared reference to 'nobody'",
		`"tools": {"run_tests": {"approve": "always", "approval": {"timeout_sec": 0}}}`: "got 0, want 1",
		`"tools": {"run_tests": {"cost": -0.01}}`:                                       "got -0.01, want 0",
		`"max_cost_usd": -1`:                              "got -1, want 0",
		`"prices": {"gpt": {"input": -0.1, "output": 1}}`: "got -0.1, want 0",
		`"tools": {"run_tests": {"compensate": "write_file"}, "write_file": {"approve": "always"}}`: "such calls cannot be approved",
		`"tools": {"run_tests": {"dedupe": ["nope"]}}`:                                              "nope",
		`"on_budget": "nowhere"`: "is not a state",
	} {
		got, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: controlled("bad", settings)})
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, %v", settings, got, err)
		}
	}
	if r.store.Commits() != 0 {
		t.Error("something is stored")
	}
}

// TestLongConditionsHold: if the condition of an approval takes too long or cannot be evaluated, the call is
// held for approval, and the approval has the error.
func TestLongConditionsHold(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	control := pawlv1.NewControlServiceClient(r.conn)
	r.register1(ctx, "", controlled("long", `"tools": {
		"run_tests": {"approve": "payload.a.all(x, payload.a.all(y, payload.a.all(z, x + y + z != 'q'))) && false"},
		"write_file": {"approve": "payload.nowhere > 1.0"}}`))
	turn := r.startRun(ctx, "", "long")
	payload := `{"path":"p","a":[` + strings.Repeat(`"aaaa",`, 400) + `"b"]}`
	asked, err := r.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: payload}, {Tool: "write_file", PayloadJson: `{}`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	waits, err := control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{})
	if err != nil || len(waits.GetApprovals()) != 2 {
		t.Fatalf("%v, %v, %v", asked, waits, err)
	}
	for _, a := range waits.GetApprovals() {
		if a.GetConditionError() == "" || !a.GetCall().GetApproval().GetHeld() {
			t.Errorf("%s is held: %v, why %q", a.GetCall().GetTool(), a.GetCall().GetApproval().GetHeld(), a.GetConditionError())
		}
	}
}

// TestReservationAboveTheLimit: a call that could exceed the budget is refused before it is made, and nothing
// is spent.
func TestReservationAboveTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings string
		bound    *pawlv1.Usage
		reason   string
	}{
		"tokens": {`"max_tokens": 100`, &pawlv1.Usage{InputTokens: 60, OutputTokens: 41}, "max_tokens"},
		"cost":   {`"max_cost_usd": 0.001`, &pawlv1.Usage{CostMicroUsd: 1001}, "max_cost_usd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ctx := newRig(t), testContext(t)
			r.register1(ctx, "", controlled("poor", c.settings))
			turn := r.startRun(ctx, "", "poor")
			got, err := r.runs.RequestModel(ctx, &pawlv1.RequestModelRequest{
				RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Round: 1, Bound: c.bound,
				Request: &pawlv1.ModelRequest{Model: "gpt", Messages: []*pawlv1.ModelMessage{}},
			})
			if err == nil && got.GetStep().GetStep() != 0 {
				t.Fatalf("the call is made: %v", got)
			}
			run, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: turn.GetRunId()})
			if err != nil {
				t.Fatal(err)
			}
			if s := run.GetRun(); s.GetReason() != c.reason || s.GetTokens()+s.GetReservedTokens()+s.GetCostMicroUsd()+s.GetReservedCostMicroUsd() != 0 || s.GetLastStep() != 0 {
				t.Errorf("%v", s)
			}
		})
	}
}

// TestControlStaysInItsNamespace: a principal with all rights in one namespace cannot read, decide, steer,
// stop or raise anything in another one.
func TestControlStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	r := newRig(t, func(c *Config, h *services.Config) {
		h.Namespaces = map[string]uint32{"red": 1, "blue": 2}
		for _, ns := range []string{"red", "blue"} {
			c.Tokens = append(c.Tokens, auth.Token{Principal: ns, Secret: secretOf(ns), Scopes: policy.AllScopes &^ (policy.Admin | policy.StoreRead), Namespaces: []string{ns}})
		}
	})
	control := pawlv1.NewControlServiceClient(r.conn)
	red, blue := withToken(ctx, "red"), withToken(ctx, "blue")
	r.register1(blue, "blue", controlled("held", `"max_tokens": 1000, "tools": {"run_tests": {"approve": "always"}}`))
	turn := r.startRun(blue, "blue", "held", "a")
	run, digest := turn.GetRunId(), r.digestOf(blue, "blue", turn.GetRunId(), 1)
	commits := r.store.Commits()
	for _, namespace := range []string{"red", "blue"} {
		for name, call := range map[string]func() error{
			"decide": func() error {
				_, err := control.DecideStep(red, &pawlv1.DecideStepRequest{Namespace: namespace, RunId: run, Step: 1, Digest: digest, Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE})
				return err
			},
			"steer": func() error {
				_, err := control.SteerRun(red, &pawlv1.SteerRunRequest{Namespace: namespace, RunId: run, Text: "x"})
				return err
			},
			"stop": func() error {
				_, err := control.StopRun(red, &pawlv1.StopRunRequest{Namespace: namespace, RunId: run})
				return err
			},
			"raise": func() error {
				_, err := control.RaiseBudget(red, &pawlv1.RaiseBudgetRequest{Namespace: namespace, RunId: run, MaxTokens: 2000, Reason: "x"})
				return err
			},
			"approvals of the run": func() error {
				_, err := control.ListApprovals(red, &pawlv1.ListApprovalsRequest{Namespace: namespace, RunId: run})
				return err
			},
		} {
			if code := codeOf(call()); code != codes.NotFound && code != codes.PermissionDenied {
				t.Errorf("%s in %s: %v", name, namespace, code)
			}
		}
	}
	for name, call := range map[string]func(namespace string) (int, error){
		"approvals": func(ns string) (int, error) {
			got, err := control.ListApprovals(red, &pawlv1.ListApprovalsRequest{Namespace: ns})
			return len(got.GetApprovals()), err
		},
		"schedules": func(ns string) (int, error) {
			got, err := control.ListSchedules(red, &pawlv1.ListSchedulesRequest{Namespace: ns})
			return len(got.GetSchedules()), err
		},
		"budgets": func(ns string) (int, error) {
			got, err := control.ListBudgets(red, &pawlv1.ListBudgetsRequest{Namespace: ns})
			return len(got.GetAccounts()), err
		},
	} {
		if n, err := call("red"); err != nil || n != 0 {
			t.Errorf("%s of red: %d, %v", name, n, err)
		}
		if _, err := call("blue"); codeOf(err) != codes.NotFound && codeOf(err) != codes.PermissionDenied {
			t.Errorf("%s of blue: %v", name, err)
		}
	}
	if _, err := control.ListLimits(red, &pawlv1.ListLimitsRequest{}); codeOf(err) != codes.PermissionDenied {
		t.Errorf("limits of all: %v", err)
	}
	if got := r.store.Commits(); got != commits {
		t.Errorf("%d commits more", got-commits)
	}
}

// TestNextPageOfApprovals: the last call of a page is decided before the next page of the run is read. The next page
// goes on behind it.
func TestNextPageOfApprovals(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	control := pawlv1.NewControlServiceClient(r.conn)
	r.register1(ctx, "", controlled("held", `"tools": {"run_tests": {"approve": "always"}}`))
	for order, steps := range map[pawlv1.RunOrder][]uint32{
		pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST: {1, 2, 3}, pawlv1.RunOrder_RUN_ORDER_NEWEST_FIRST: {3, 2, 1},
	} {
		run := r.startRun(ctx, "", "held", "a", "b", "c").GetRunId()
		var got []uint32
		for token, more := "", true; more; {
			page, err := control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{RunId: run, PageSize: 2, PageToken: token, Order: order})
			if err != nil {
				t.Fatal(err)
			}
			for _, approval := range page.GetApprovals() {
				got = append(got, approval.GetCall().GetStep())
			}
			if token = page.GetNextPageToken(); token == "" {
				more = false
				continue
			}
			if _, err := control.DecideStep(ctx, &pawlv1.DecideStepRequest{
				RunId: run, Step: 2, Digest: r.digestOf(ctx, "", run, 2), Decision: pawlv1.StepDecision_STEP_DECISION_DENY,
			}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, steps) {
			t.Errorf("%s: steps %v, want %v", order, got, steps)
		}
	}
}
