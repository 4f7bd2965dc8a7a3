package rules

import (
	"crypto/sha256"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Generators of calls that people approve, and of effects.

// genVerdicts are what the tool says that is asked whether a call happened.
var genVerdicts = []string{
	`{"happened":true,"result":1}`, `{"happened":true,"result":"ab"}`, `{"happened":true,"result":"01234567890123456789"}`, `{"happened":true}`,
	`{"happened":false}`, `{"happened":false,"result":1}`, `{"happened":null}`, `{"happened":"yes"}`, `{}`, `7`,
}

// genEffects has in half of all graphs tools whose calls are asked about, undone or had once.
func genEffects(t *rapid.T, g *machine.Graph) {
	for _, name := range []string{"ask", "undo"} {
		g.Tools[name] = machine.Tool{
			Timeout: time.Duration(small(t, 30)) * time.Second, Attempts: small(t, 3), OnError: pick(t, []machine.OnFault{machine.Return, machine.Escalate}),
			OnUnknown: pick(t, []machine.OnFault{machine.Return, machine.Retry, machine.Escalate}), CostMicro: int64(small(t, 15)) * int64(small(t, 1)),
		}
		g.Ledger = g.Ledger || g.Tools[name].CostMicro > 0
	}
	if chance(t, 5) {
		return
	}
	for _, name := range []string{"undo", "t0", "t1", "agent"} {
		tool := g.Tools[name]
		if name != "agent" && chance(t, 5) {
			tool.OnUnknown, tool.Reconcile = machine.Reconcile, "ask"
		}
		if name != "undo" && chance(t, 5) {
			tool.Compensate = "undo"
		}
		if name != "undo" && chance(t, 4) {
			tool.Dedupe = []string{"/order"}
		}
		g.Tools[name] = tool
	}
	if chance(t, 5) {
		g.CompensateOn = map[string]bool{pick(t, genEvents): true, pick(t, genEvents): true}
	}
}

func genApprovals(t *rapid.T, g *machine.Graph) {
	if chance(t, 5) {
		return
	}
	for _, name := range []string{"t0", "t1", "agent"} {
		if tool := g.Tools[name]; chance(t, 5) {
			tool.Approval = &machine.Approval{
				If: pick(t, []string{"", "payload.x > 1"}), Timeout: time.Duration(small(t, 60)) * time.Second, Escalate: chance(t, 3), NotStarter: chance(t, 3),
			}
			g.Tools[name] = tool
		}
	}
}

// genControl draws what goes on with a held call or a compensation; nil where there is none,
// and now and then.
func genControl(t *rapid.T, s *machine.State) machine.Command {
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Approval != nil && (p.HeldForApproval() || chance(t, 1)) && chance(t, 3) {
			return genDecision(t, s, p)
		}
	}
	if s.Undo == nil && s.OwnSteps == 0 || chance(t, 4) {
		return nil
	}
	for i := range s.Steps {
		p := &s.Steps[i]
		if !p.AwaitingAnswer() || p.About == nil && s.Undo == nil || chance(t, 3) {
			continue
		}
		switch rapid.IntRange(0, 5).Draw(t, "own") {
		case 0:
			return machine.LoseStep{Step: p.Step, Attempt: p.Attempt, Worker: "w"}
		case 1:
			timer := StepTimer(s, p)
			return machine.FireTimer{Kind: timer.Kind, Step: timer.Step, Due: timer.Due}
		}
		c := genResolve(t, s)
		c.Step, c.Tool, c.Attempt = p.Step, p.Tool, p.Attempt
		if c.OK && c.Tool == "ask" {
			c.Result = []byte(pick(t, genVerdicts))
		}
		return c
	}
	return nil
}

func genDecision(t *rapid.T, s *machine.State, p *machine.ToolStep) machine.DecideStep {
	c := machine.DecideStep{
		Step: p.Step, Digest: p.Approval.Digest, Reason: pick(t, []string{"", "fine"}),
		Verdict: pick(t, []machine.Verdict{machine.Approved, machine.Approved, machine.Approved, machine.Refused, machine.Edited, machine.Expired, 0}),
	}
	if chance(t, 1) {
		c.Digest[0]++
	}
	if chance(t, 1) {
		c.Step = genStep(t, s)
	}
	if c.Verdict == machine.Edited && chance(t, 9) || chance(t, 1) {
		c.Payload = []byte(pick(t, []string{`{"x":1}`, `{}`}))
		c.PayloadHash = sha256.Sum256(c.Payload)
	}
	if chance(t, 4) {
		c.Expires = s.At + int64(rapid.IntRange(-1, 20).Draw(t, "expires"))*int64(time.Second)
	}
	if chance(t, 3) {
		c.Starters = []string{pick(t, []string{"p", "somebody"})}
	}
	return c
}

// genControlled leaves a run alive: what ends it is control.
func genControlled(t *rapid.T, g *machine.Graph, start *machine.Start) {
	b := machine.Budget{MaxTokens: g.Budget.MaxTokens, MaxCostMicroUSD: 4 * g.Budget.MaxCostMicroUSD}
	if chance(t, 8) {
		b = machine.Budget{}
	}
	g.Budget, g.MaxArtifactBytes, g.Retry.MaxAttempts = b, 0, 9
	start.MaxWallTime, start.MaxSteps, start.Execution = 0, 0, machine.Caller
	start.Limits = machine.Limits{MaxTransitions: 99, MaxArtifactBytes: 99, MaxRunArtifactBytes: 9999, MaxMessageBytes: 9999, MaxQueuedInputs: 9}
	for _, n := range g.States {
		n.Prompt, n.Orchestration = "p0", machine.Hybrid
		if !n.Terminal {
			n.MaxVisits, n.MaxIterations, n.Timeout = 0, nil, nil
		}
	}
	for _, name := range []string{"t0", "t1"} {
		tool := g.Tools[name]
		tool.Attempts, tool.OnError, tool.Compensate = 2, machine.Return, "undo"
		tool.ResultArtifact = ""
		if chance(t, 7) {
			tool.OnUnknown, tool.Reconcile = machine.Reconcile, "ask"
		}
		if chance(t, 5) {
			tool.CostMicro, g.Ledger = 5, true
		}
		g.Tools[name] = tool
	}
	if chance(t, 5) {
		g.NoProgress = &machine.NoProgress{Window: 2, ToolCalls: true}
	}
}
