package rules

import (
	"crypto/sha256"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Generators of graphs and inputs. Names, bounds and values are few and small,
// so that guards, budgets and limits are met all the time.

var (
	genEvents = []string{"E0", "E1", "E2"}
	genTools  = []string{"t0", "t1", "agent", "blocked", "unlisted", "ask", "undo"}
	genSlots  = map[string]machine.Artifact{
		"text": {Type: "text/plain"}, "log": {Type: "text/plain", Mode: machine.Append},
		"json": {Type: "application/json"}, "list": {Type: "application/json", Mode: machine.Append},
		"bytes": {Type: "image/png", Mode: machine.Append},
	}
	genSlotNames = []string{"text", "log", "json", "list", "bytes", "undeclared"}
)

// chance is true in n of 10 cases.
func chance(t *rapid.T, n int) bool { return rapid.IntRange(0, 9).Draw(t, "chance") < n }

// small is 0 in half of all cases, else 1..most.
func small(t *rapid.T, most int) int {
	if chance(t, 5) {
		return 0
	}
	return rapid.IntRange(1, most).Draw(t, "n")
}

func pick[T any](t *rapid.T, list []T) T { return rapid.SampledFrom(list).Draw(t, "pick") }

func genGraph(t *rapid.T) *machine.Graph {
	g := &machine.Graph{
		Digest: "sha256:aa", PackID: "gen", PackVersion: "1.0.0", Entry: "s0",
		States: map[string]*machine.Node{}, Artifacts: genSlots, Tools: map[string]machine.Tool{},
		Budget: machine.Budget{
			MaxTotalVisits: small(t, 12), MaxToolCalls: small(t, 6), MaxSteps: small(t, 5), MaxReframes: small(t, 2),
			MaxTokens: int64(small(t, 60)), MaxCostMicroUSD: int64(small(t, 60)),
			MaxWallTime: time.Duration(small(t, 200)) * time.Second,
		},
		Retry:               machine.RetryPolicy{MaxAttempts: small(t, 4), Initial: time.Duration(small(t, 20)) * time.Second, Max: time.Duration(small(t, 60)) * time.Second},
		MaxPendingSteps:     small(t, 4),
		MaxArtifactBytes:    int64(small(t, 12)),
		MaxRunArtifactBytes: pick(t, []int64{0, 0, 12, 40}),
		WallExcludesWaiting: chance(t, 3),
	}
	if chance(t, 3) {
		g.NoProgress = &machine.NoProgress{Window: rapid.IntRange(2, 3).Draw(t, "window"), Artifacts: chance(t, 2), ToolCalls: chance(t, 2)}
	}
	if chance(t, 4) {
		g.Prices = map[string]machine.Price{"dear": {Input: 1_500_000, Cached: 150_001, Output: 6_000_000, Reasoning: 7_000_000}, "free": {}}
	}
	var names []string
	for i := range rapid.IntRange(1, 5).Draw(t, "states") {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	for _, name := range names {
		g.States[name] = genNode(t, name, names)
	}
	for _, name := range []string{"t0", "t1", "agent", "blocked"} {
		g.Tools[name] = machine.Tool{
			Timeout: time.Duration(small(t, 30)) * time.Second, Attempts: small(t, 3),
			OnError: pick(t, []machine.OnFault{machine.Return, machine.Return, machine.Escalate}), OnUnknown: pick(t, []machine.OnFault{machine.Return, machine.Retry, machine.Escalate}),
			MaxCalls: pick(t, []int{0, 0, 0, 1, 2}), Agent: name == "agent", TurnTokens: pick(t, []int64{0, 0, 7, 20}), ResultArtifact: pick(t, []string{"", "", "text", "json", "list"}),
		}
	}
	if chance(t, 5) {
		tool := g.Tools["t0"]
		tool.Retry = &machine.RetryPolicy{
			Initial: time.Duration(small(t, 5)) * time.Second, Max: time.Duration(small(t, 20)) * time.Second,
			Multiplier: pick(t, []int64{0, 1000, 1500, 10_000}), NonRetryable: pick(t, [][]string{nil, {"X"}, {"DEADLINE_EXCEEDED", "WORKER_LOST"}}),
		}
		if chance(t, 5) {
			share := pick(t, []int64{0, 500_000, 1_000_000})
			tool.Retry.Jitter = &share
		}
		g.Tools["t0"] = tool
	}
	genCosts(t, g, names)
	genEffects(t, g)
	genApprovals(t, g)
	g.ModelCalls = genCalls(t)
	g.Prompts = map[string]*machine.Prompt{
		"p0": {Tools: map[string]bool{"t0": true, "t1": true, "agent": true, "blocked": true, "ask": true, "undo": true}, Blocklist: map[string]bool{"blocked": true}},
		"p1": {Tools: map[string]bool{"t0": true}, MaxToolCallsPerTurn: 2},
	}
	return g
}

func genNode(t *rapid.T, name string, names []string) *machine.Node {
	n := &machine.Node{
		Name: name, Prompt: pick(t, []string{"p0", "p0", "p1", "none"}), OnEvent: map[string]string{}, MaxIterations: map[string]int{},
		MaxVisits: small(t, 3), Orchestration: pick(t, []machine.Orchestration{machine.Internal, machine.Internal, machine.External, machine.Hybrid}), Persistent: chance(t, 3),
		Control: pick(t, []machine.Control{machine.ControlUndeclared, machine.ControlUndeclared, machine.ControlUser, machine.ControlAgent}),
	}
	for _, event := range genEvents {
		if chance(t, 5) {
			n.OnEvent[event] = pick(t, names)
			if chance(t, 2) {
				n.MaxIterations[event] = rapid.IntRange(1, 2).Draw(t, "iterations")
			}
			if chance(t, 2) {
				n.Timeout = &machine.Timeout{After: time.Duration(rapid.IntRange(1, 60).Draw(t, "after")) * time.Second, Event: event}
			}
		}
	}
	if chance(t, 5) {
		n.OnMaxVisits = pick(t, names)
	}
	n.Terminal = len(n.OnEvent) == 0 || chance(t, 1)
	if n.Terminal {
		n.Outcome = pick(t, []machine.Status{machine.StatusUnset, machine.StatusUnset, machine.Failed})
	}
	return n
}

func genStart(t *rapid.T) machine.Start {
	c := machine.Start{
		RunID: "R", Execution: pick(t, []machine.Execution{machine.Caller, machine.Workers}),
		MaxWallTime: time.Duration(small(t, 200)) * time.Second, MaxSteps: small(t, 5),
		Limits: machine.Limits{
			MaxTransitions: rapid.IntRange(2, 20).Draw(t, "transitions"), MaxArtifactBytes: int64(rapid.IntRange(8, 16).Draw(t, "value")),
			MaxRunArtifactBytes: int64(rapid.IntRange(20, 80).Draw(t, "total")), MaxMessageBytes: int64(rapid.IntRange(20, 120).Draw(t, "messages")),
			MaxQueuedInputs: rapid.IntRange(1, 3).Draw(t, "queue"),
		},
	}
	if chance(t, 2) {
		c.Lease = machine.Amount{Tokens: int64(small(t, 60)), CostMicro: int64(small(t, 60)), ToolCalls: int64(small(t, 6))}
	}
	if chance(t, 2) {
		c.Policy = genPolicy(t)
	}
	if chance(t, 5) {
		c.Parent = &machine.Parent{RunID: "P", Step: 1, Attempt: 1, Origin: pick(t, []string{"", "elsewhere"})}
	}
	if chance(t, 3) {
		c.Payer = &machine.Payer{}
	}
	c.Conversation = chance(t, 3)
	if chance(t, 4) {
		c.Input = textPart("start")
	}
	return c
}

// genCommand draws a command that mostly makes sense in the state s.
func genCommand(t *rapid.T, g *machine.Graph, s *machine.State) machine.Command {
	turn, attempt := genTurn(t, s)
	if c := genControl(t, s); c != nil {
		return c
	}
	if chance(t, 4) {
		return genModelCommand(t, s, turn, attempt)
	}
	switch rapid.IntRange(0, 19).Draw(t, "command") {
	case 0, 1, 2, 3:
		c := machine.EmitEvent{Event: pick(t, genEvents), Artifacts: genWrites(t), ExpectedSeq: genSeq(t, s), Outside: chance(t, 5)}
		c.Assigned = genAssigned(t, c.Outside)
		if !c.Outside {
			c.Violation = genViolation(t)
		}
		return c
	case 4, 5, 6:
		c := machine.CompleteTurn{
			TurnSeq: turn, Attempt: attempt, Usage: genUsage(t), Artifacts: genWrites(t), ExpectedSeq: genSeq(t, s),
			Outside: chance(t, 2), Event: pick(t, []string{"", "", "E0", "E1"}), Assigned: genAssigned(t, false),
		}
		if chance(t, 6) {
			c.Output = textPart("out")
		}
		if chance(t, 3) {
			c.Messages = []machine.Message{{Role: "assistant", Parts: textPart("m")}}
		}
		c.Await, c.Reply = genAwaiting(t), chance(t, 1)
		if len(s.Steps) > 0 && chance(t, 3) {
			c.ConversationThroughStep = genStep(t, s)
		}
		c.Violation = genViolation(t)
		return c
	case 7, 8:
		c := machine.SendInput{ExpectedSeq: genSeq(t, s)}
		if chance(t, 9) {
			c.Parts = textPart(pick(t, []string{"a", "bcdef", "0123456789012345678901234"}))
		}
		if asking := AskingDelegation(s.Steps); asking != nil || chance(t, 1) {
			c.Step = genStep(t, s)
		}
		if chance(t, 2) {
			c.Envelope = &machine.Envelope{MessageID: "m", Extensions: []string{"x"}}
		}
		return c
	case 9:
		return machine.SetArtifacts{Artifacts: genWrites(t), ExpectedSeq: genSeq(t, s)}
	case 10, 11:
		return machine.FailTurn{TurnSeq: turn, Attempt: attempt, Error: machine.Fault{Code: "X"}, Retryable: chance(t, 9), Usage: genUsage(t), Assigned: genAssigned(t, false), Reject: chance(t, 1), Rejected: genRejected(t, s)}
	case 12:
		return machine.SuspendTurn{TurnSeq: turn, Attempt: attempt, Assigned: genAssigned(t, false)}
	case 13, 14, 15:
		return genRequest(t, g, s, turn, attempt)
	}
	return genOther(t, s, turn, attempt)
}

func genOther(t *rapid.T, s *machine.State, turn uint64, attempt int) machine.Command {
	switch rapid.IntRange(0, 22).Draw(t, "other") {
	case 18, 19, 20, 21:
		return machine.Steer{
			Text: pick(t, []string{"go left", "go left", "stay", ""}),
			When: pick(t, []machine.SteerWhen{machine.NextModelCall, machine.NextModelCall, machine.SteerNow, machine.NextTurn, machine.SteerUnset}),
		}
	case 22:
		return machine.Stop{Note: "enough"}
	case 14, 15:
		return genNote(t, s)
	case 16:
		return genOutput(t, turn, attempt)
	case 17:
		return machine.RaiseBudget{To: machine.Amount{Tokens: int64(small(t, 120)) - int64(small(t, 2)), CostMicro: int64(small(t, 120))}, Reason: "more"}
	case 0, 1, 2, 3, 4:
		return genResolve(t, s)
	case 5:
		return machine.LoseStep{Step: genStep(t, s), Attempt: rapid.IntRange(1, 2).Draw(t, "attempt"), Worker: "w"}
	case 6:
		return machine.LoseTurn{TurnSeq: turn, Attempt: attempt, LeaseExpired: chance(t, 6), Undeliverable: chance(t, 1), Assigned: genAssigned(t, false)}
	case 7:
		return machine.Pause{Note: "p"}
	case 8, 9:
		return machine.Resume{}
	case 10:
		if chance(t, 2) {
			return machine.Cancel{}
		}
	}
	c := machine.FireTimer{
		Kind: pick(t, []machine.TimerKind{machine.TimerWall, machine.TimerRetry, machine.TimerState, machine.TimerStep}), Step: genStep(t, s), Turn: turn,
		Due: epoch + int64(rapid.IntRange(0, 300).Draw(t, "due"))*int64(time.Second),
	}
	if timers := Timers(s); len(timers) > 0 && chance(t, 9) {
		timer := pick(t, timers)
		c = machine.FireTimer{Kind: timer.Kind, Step: timer.Step, Turn: timer.Turn, Due: timer.Due}
	}
	return c
}

func genTurn(t *rapid.T, s *machine.State) (uint64, int) {
	turn, attempt := s.VisitSeq, 1
	if s.Turn != nil {
		turn, attempt = s.Turn.Seq, s.Turn.Attempt
	}
	if chance(t, 1) {
		attempt = max(1, attempt-1)
	}
	if chance(t, 1) {
		turn = uint64(rapid.IntRange(1, int(s.Seq)).Draw(t, "turn"))
	}
	return turn, attempt
}

func genSeq(t *rapid.T, s *machine.State) uint64 {
	switch rapid.IntRange(0, 9).Draw(t, "expected") {
	case 0:
		return uint64(rapid.IntRange(1, int(s.Seq)).Draw(t, "seq"))
	case 1, 2:
		return s.VisitSeq
	}
	return 0
}

func genAssigned(t *rapid.T, none bool) *machine.Assignment {
	if none || chance(t, 4) {
		return nil
	}
	return &machine.Assignment{Worker: "w", Delivery: rapid.IntRange(1, 3).Draw(t, "delivery"), At: epoch}
}

func genUsage(t *rapid.T) machine.Usage {
	if chance(t, 6) {
		return machine.Usage{}
	}
	u := machine.Usage{
		InputTokens: int64(small(t, 20)), OutputTokens: int64(small(t, 20)), CostMicro: int64(small(t, 30)),
		ToolCalls: pick(t, []int{0, 1, 3, -1}), Model: pick(t, []string{"", "", "dear", "free", "operator's", "unknown"}),
	}
	if chance(t, 3) {
		u.CachedTokens, u.ReasoningTokens = int64(small(t, 20)), int64(small(t, 20))
	}
	if u.Model == "operator's" {
		u.Price = &machine.Price{Input: 700_000, Cached: 70_000, Output: 1_300_000, Reasoning: 1}
	}
	return u
}

func genWrites(t *rapid.T) []machine.ArtifactWrite {
	var writes []machine.ArtifactWrite
	for range small(t, 2) {
		writes = append(writes, machine.ArtifactWrite{
			Name:  pick(t, genSlotNames[:len(genSlotNames)-pick(t, []int{0, 1, 1, 1})]),
			Value: []byte(pick(t, []string{`1`, `"ab"`, `[1,2]`, `{"a":1}`, `nope`, "\xff", ``, `12345678901234567890`})),
		})
	}
	return writes
}

func genRequest(t *rapid.T, g *machine.Graph, s *machine.State, turn uint64, attempt int) machine.RequestSteps {
	c := machine.RequestSteps{TurnSeq: turn, Attempt: attempt, First: pick(t, []int{0, 0, 1, 2}), Assigned: genAssigned(t, false)}
	for range rapid.IntRange(0, 3).Draw(t, "requests") {
		r := machine.StepRequest{
			Key: pick(t, []string{"", "", "", "k"}), Tool: pick(t, append([]string{"t0", "t0", "t0", "t1"}, genTools...)),
			Payload: []byte(pick(t, []string{"{}", "{}", "{}", "1"})), Reframe: chance(t, 2), ByCaller: chance(t, 4), Repeatable: chance(t, 3),
		}
		if chance(t, 1) {
			r.Denied = &machine.Denial{Code: "HOST"}
		}
		if g.Tools[r.Tool].Dedupe != nil {
			r.Effect = businessKey(r.Tool, r.Payload)
		}
		if a := g.Tools[r.Tool].Approval; a != nil && a.If != "" {
			r.Holding = pick(t, []machine.Holding{{Free: true}, {}, {Why: "no such key"}})
		}
		r.PayloadHash = sha256.Sum256(r.Payload)
		r.Local = chance(t, 5)
		if g.Tools[r.Tool].Agent && chance(t, 4) {
			r.Policy = genPolicy(t)
			r.Policy.Block, r.Policy.Named = nil, chance(t, 5)
		}
		if len(s.Steps) > 0 && chance(t, 5) {
			r.Call = &machine.CallRef{Step: genStep(t, s), Index: pick(t, []int{0, 0, 1, 2, -1})}
		}
		c.Requests = append(c.Requests, r)
	}
	return c
}

// genPolicy draws lists of tools, sorted.
func genPolicy(t *rapid.T) *machine.ToolPolicy {
	p := &machine.ToolPolicy{Limited: chance(t, 6)}
	for _, name := range []string{"agent", "ask", "blocked", "t0", "t1", "undo"} {
		if p.Limited && chance(t, 7) {
			p.Allow = append(p.Allow, name)
		}
		if chance(t, 1) {
			p.Block = append(p.Block, name)
		}
	}
	return p
}

func genStep(t *rapid.T, s *machine.State) uint32 {
	if len(s.Steps) > 0 && chance(t, 8) {
		return pick(t, s.Steps).Step
	}
	return uint32(rapid.IntRange(0, int(s.LastStep)+1).Draw(t, "step"))
}

func genResolve(t *rapid.T, s *machine.State) machine.ResolveStep {
	c := machine.ResolveStep{Step: genStep(t, s), Attempt: rapid.IntRange(0, 2).Draw(t, "attempt"), OK: chance(t, 5)}
	c.Tool = pick(t, []string{"t0", "t1"})
	if i := FindStep(s.Steps, c.Step); i >= 0 && chance(t, 9) {
		c.Tool = s.Steps[i].Tool
	}
	if c.OK {
		c.Result = []byte(pick(t, []string{`1`, `"ab"`, `[1]`, `null`, `nope`, `"01234567890123456789"`}))
		if c.Tool == "ask" && chance(t, 9) {
			c.Result = []byte(pick(t, genVerdicts))
		}
	} else {
		c.Unknown = chance(t, 2)
		c.Error, c.Final = machine.Fault{Code: pick(t, []string{"E", "F", "X"})}, chance(t, 2)
		c.RetryAfter = time.Duration(pick(t, []int{0, 0, 1, 7, 100})) * time.Second
	}
	if chance(t, 3) {
		c.Usage = genUsage(t)
	}
	c.Metered = chance(t, 4)
	return c
}

// genCosts says in half of all graphs what tools cost, and where to go without money.
func genCosts(t *rapid.T, g *machine.Graph, names []string) {
	if chance(t, 5) {
		return
	}
	for _, name := range []string{"t0", "agent"} {
		tool := g.Tools[name]
		tool.CostMicro = int64(small(t, 15))
		g.Tools[name] = tool
		g.Ledger = g.Ledger || tool.CostMicro > 0
	}
	if chance(t, 5) {
		g.OnBudget, g.Ledger = pick(t, names), true
	}
}

func genAwaiting(t *rapid.T) machine.Awaiting {
	if chance(t, 8) {
		return machine.AwaitNothing
	}
	return pick(t, []machine.Awaiting{machine.AwaitInput, machine.AwaitAuth})
}

func genNote(t *rapid.T, s *machine.State) machine.NoteDelegation {
	c := machine.NoteDelegation{Step: genStep(t, s), Attempt: rapid.IntRange(1, 2).Draw(t, "attempt"), Remote: machine.Remote{
		TaskID: pick(t, []string{"", "task", "task", "other"}), Asking: genAwaiting(t),
		Sent: pick(t, []machine.Sending{0, 0, machine.SentOnce, machine.SentRepeatable, machine.SentNot}),
	}}
	if i := FindStep(s.Steps, c.Step); i >= 0 && s.Steps[i].Remote != nil && chance(t, 5) {
		c.Remote.Answer = s.Steps[i].Remote.Answer
	}
	if c.Remote.Asking != machine.AwaitNothing {
		c.Question = textPart("?")
	}
	return c
}

func genOutput(t *rapid.T, turn uint64, attempt int) machine.WriteOutput {
	c := machine.WriteOutput{TurnSeq: turn, Attempt: attempt, Assigned: genAssigned(t, false), Piece: machine.OutputPiece{
		ID: pick(t, []string{"", "o", "o", "p"}), Append: chance(t, 5), Last: chance(t, 3),
	}}
	if chance(t, 8) {
		c.Piece.Parts = textPart("chunk")
	}
	return c
}
