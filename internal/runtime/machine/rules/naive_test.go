package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// verdict is what the naive implementation makes of an input.
type verdict struct {
	records     []machine.Record
	refusal     *machine.Error
	disposition machine.Disposition
	outcomes    []machine.StepOutcome
	// mismatch means that the caller gets an error although the input is recorded.
	mismatch bool
}

// apply takes one input and, unless it is refused or without effect, adds it to
// the journal.
func (n *naive) apply(in machine.Input) verdict {
	n.records = nil
	if v := n.view(); v.at > in.At {
		in.At = v.at
	}
	n.now = in
	var out verdict
	n.command(&out)
	if out.refusal != nil {
		n.records = nil
	}
	if out.refusal == nil && len(n.records) == 0 && in.ID != "" && n.view().ended == nil {
		n.add(&machine.NoChange{Command: machine.KindOf(in.Command), ID: in.ID})
	}
	if len(n.records) > 0 {
		n.afterInput()
		n.entries = append(n.entries, machine.Entry{Input: n.now, Records: n.records, First: n.records[0].Seq})
	}
	for _, r := range n.records {
		f, failed := r.Body.(*machine.TurnFailed)
		out.mismatch = out.mismatch || failed && f.Violation != nil
	}
	out.records, n.records, n.now = n.records, nil, machine.Input{}
	return out
}

// afterInput is what follows every input: the effects that are undone, and the budgets.
func (n *naive) afterInput() {
	n.undoNext()
	v := n.view()
	switch reason := n.exceededBudget(); {
	case v.ended != nil:
	case v.undo != nil && v.deadline > 0 && n.now.At >= v.deadline:
		n.end(machine.BudgetExhausted, "max_wall_time_sec", nil, nil)
	case v.undo != nil:
	case reason != "":
		n.end(machine.BudgetExhausted, reason, nil, nil)
	default:
		n.noticeBudget()
	}
	n.undoNext()
}

// add makes one record.
func (n *naive) add(b machine.Body) {
	seq := uint64(len(n.records)) + 1
	for _, e := range n.entries {
		seq += uint64(len(e.Records))
	}
	n.records = append(n.records, machine.Record{Seq: seq, At: n.now.At, Principal: n.now.Principal, Body: b})
}

func (n *naive) start() machine.Start {
	c, _ := begun(n.entries[0].Input.Command)
	return c
}

func (n *naive) command(out *verdict) {
	out.disposition = machine.Accepted
	if out.refusal = n.refuseUndoing(); out.refusal != nil {
		return
	}
	switch c := n.now.Command.(type) {
	case machine.Start:
		n.begin(c)
	case machine.Fork:
		out.refusal = n.fork(c)
	case machine.EmitEvent:
		out.refusal = n.emit(c)
	case machine.CompleteTurn:
		out.refusal = n.complete(c)
	case machine.SendInput:
		out.refusal = n.input(c)
	case machine.SetArtifacts:
		out.refusal = n.set(c)
	case machine.FailTurn:
		n.fail(c, out)
	case machine.SuspendTurn:
		out.refusal = n.suspend(c)
	case machine.RequestSteps:
		out.refusal = n.request(c, out)
	case machine.ResolveStep:
		n.resolve(c, out)
	case machine.RequestModel:
		out.refusal = n.requestModel(c, out)
	case machine.AnswerModel:
		n.answerModel(c, out)
	case machine.UpdateModelCall:
		n.noteModel(c, out)
	case machine.RaiseBudget:
		out.refusal = n.raise(c)
	case machine.FireTimer:
		n.fire(c, out)
	case machine.LoseTurn:
		n.loseTurn(c, out)
	case machine.LoseStep:
		n.loseStep(c, out)
	case machine.WriteOutput:
		out.refusal = n.write(c)
	case machine.NoteDelegation:
		n.noteDelegation(c, out)
	case machine.Steer:
		out.refusal = n.steer(c)
	case machine.Stop:
		out.refusal = n.halt(c)
	case machine.DecideStep:
		n.decide(c, out)
	case machine.Pause, machine.Resume, machine.Cancel:
		out.refusal = n.lifecycle(c)
	}
}

func (n *naive) begin(c machine.Start) {
	n.enter(nil, "", n.g.Entry, machine.CauseEntry, nil)
	if len(c.Input) > 0 {
		n.add(&machine.InputReceived{Parts: c.Input, Envelope: c.Envelope})
	}
}

// refuse is check (4), check (5), the pause and a stale turn, in that order; a
// zero argument leaves a check out.
func (n *naive) refuse(paused bool, turn uint64, attempt int, expected uint64) *machine.Error {
	v := n.view()
	switch {
	case v.ended != nil:
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "RUN_TERMINAL", Field: "run_id", Seq: v.seq}
	case expected != 0 && expected != v.visitSeq:
		return &machine.Error{Code: machine.CodeAborted, Reason: "SEQ_MISMATCH", Field: "expected_seq", Seq: v.visitSeq}
	case paused && v.paused:
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "PAUSED", Field: "run_id"}
	case attempt != 0 && v.turn == nil:
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "TURN_STALE", Field: "turn_seq"}
	case attempt != 0 && (v.turn.seq != turn || v.turn.attempt != attempt):
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "TURN_STALE", Field: "turn_seq", Seq: v.turn.seq}
	}
	return nil
}

func (n *naive) refuseEvent(event string) *machine.Error {
	node := n.g.States[n.view().current]
	if _, ok := node.OnEvent[event]; ok && !node.Terminal {
		return nil
	}
	r := &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "UNKNOWN_EVENT", Field: "event"}
	for e := range node.OnEvent {
		if !node.Terminal {
			r.Allowed = append(r.Allowed, e)
		}
	}
	sort.Strings(r.Allowed)
	return r
}

func (n *naive) refuseWrites(writes []machine.ArtifactWrite) *machine.Error {
	v, limits := n.view(), n.start().Limits
	most := limits.MaxArtifactBytes
	if n.g.MaxArtifactBytes > 0 {
		most = min(most, n.g.MaxArtifactBytes)
	}
	held := v.heldTokens()
	seen := map[string]bool{}
	for _, w := range writes {
		name := "artifacts[" + w.Name + "]"
		decl, ok := n.g.Artifacts[w.Name]
		kind, _, _ := strings.Cut(decl.Type, "/")
		switch {
		case !ok:
			r := &machine.Error{Code: machine.CodeInvalidArgument, Reason: "UNDECLARED_ARTIFACT", Field: name}
			for a := range n.g.Artifacts {
				r.Allowed = append(r.Allowed, a)
			}
			sort.Strings(r.Allowed)
			return r
		case seen[w.Name]:
			return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "DUPLICATE_ARTIFACT", Field: name}
		case int64(len(w.Value)) > most:
			return &machine.Error{Code: machine.CodeResourceExhausted, Reason: "ARTIFACT_TOO_LARGE", Field: name, Limit: most, Got: int64(len(w.Value))}
		case strings.HasSuffix(decl.Type, "json") && !json.Valid(w.Value), kind == "text" && !utf8.Valid(w.Value):
			return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "ARTIFACT_TYPE", Field: name, Allowed: []string{decl.Type}}
		}
		seen[w.Name] = true
		held += int64(len(w.Value))
		if decl.Mode == machine.Replace {
			held -= v.artifacts[w.Name].bytes
		}
	}
	together := limits.MaxRunArtifactBytes
	if n.g.MaxRunArtifactBytes > 0 {
		together = min(together, n.g.MaxRunArtifactBytes)
	}
	if len(writes) > 0 && held > together {
		return &machine.Error{Code: machine.CodeResourceExhausted, Reason: "ARTIFACTS_TOO_LARGE", Field: "artifacts", Limit: together, Got: held}
	}
	return nil
}

func (n *naive) refuseMessages(more int64) *machine.Error {
	most := n.start().Limits.MaxMessageBytes
	if got := n.view().bytes + more; got > most {
		return &machine.Error{Code: machine.CodeResourceExhausted, Reason: "MESSAGES_TOO_LARGE", Field: "messages", Limit: most, Got: got}
	}
	return nil
}

// exceededBudget names the budget that is exceeded.
func (n *naive) exceededBudget() string {
	v := n.view()
	for _, c := range []struct {
		reason string
		over   bool
	}{
		{"max_wall_time_sec", v.deadline > 0 && n.now.At >= v.deadline},
		{"max_tool_calls", v.mostCalls > 0 && int64(v.calls) > v.mostCalls},
		{"max_tokens", v.limit.Tokens > 0 && v.tokens > v.limit.Tokens},
		{"max_cost_usd", v.limit.CostMicro > 0 && v.cost > v.limit.CostMicro},
	} {
		if c.over {
			return c.reason
		}
	}
	return ""
}

func (n *naive) end(status machine.Status, reason string, redirects []machine.Redirect, writes []machine.ArtifactWrite) {
	n.endAt("", "", status, reason, redirects, writes)
}

// endAt is the end that an event, and with it a target, is lost at.
func (n *naive) endAt(event, target string, status machine.Status, reason string, redirects []machine.Redirect, writes []machine.ArtifactWrite) {
	begun := machine.CompensationStarted{Status: status, Reason: reason, Event: event, Intended: target, Redirects: redirects, Artifacts: writes}
	switch v := n.view(); {
	case v.undo != nil:
		n.divertEnd(status, reason)
	case status == machine.Completed || !n.beginUndo(begun):
		n.finish(event, target, status, reason, redirects, writes, n.standingEffects)
	}
}

// finish makes the record; first version of the semantics: it does not tell of the event.
func (n *naive) finish(event, target string, status machine.Status, reason string, redirects []machine.Redirect, writes []machine.ArtifactWrite, standing []machine.UncompensatedEffect) {
	n.cancelPending("run_ended")
	if v := n.view(); n.leased() {
		for _, o := range v.unreported {
			n.add(&machine.ModelUpdated{Step: o.Step, Attempt: o.Attempt, Usage: v.unreportedUsage(o)})
		}
	}
	e := machine.Ended{Status: status, Reason: reason, Redirects: redirects, Artifacts: writes, Uncompensated: standing}
	if n.now.Semantics >= 2 {
		e.Event, e.Intended = event, target
	}
	n.add(&e)
}

func (n *naive) cancelPending(why string) {
	v := n.view()
	for _, step := range v.pending() {
		n.add(&machine.StepCancelled{Step: step, Tool: v.step(step).tool, Why: why, Kind: n.kindOf(v.step(step)), Usage: n.forgoneUsage(v.step(step))})
	}
}

// enter is section 3 word by word.
func (n *naive) enter(from *machine.Node, event, target string, cause machine.Cause, writes []machine.ArtifactWrite) {
	v := n.view()
	still := from != nil && event != "" && n.standsStill(event, target, writes)
	n.cancelPending("visit_left")
	var chain []machine.Redirect
	for name := target; ; {
		if n.g.Budget.MaxTotalVisits > 0 && v.total >= n.g.Budget.MaxTotalVisits {
			n.endAt(event, target, machine.BudgetExhausted, "max_total_visits", nil, writes)
			return
		}
		if limit := n.limits().MaxTransitions; v.total >= limit {
			n.endAt(event, target, machine.BudgetExhausted, "max_transitions", nil, writes)
			return
		}
		tried := slices.ContainsFunc(chain, func(r machine.Redirect) bool { return r.State == name })
		if name == "" || tried {
			status := machine.BudgetExhausted
			if chain[0].Guard == "no_progress" {
				status = machine.Escalated
			}
			n.endAt(event, target, status, chain[0].Guard, chain, writes)
			return
		}
		state := n.g.States[name]
		if from != nil && len(chain) == 0 {
			if most, ok := from.MaxIterations[event]; ok && v.edges[from.Name+"."+event] >= most {
				chain = append(chain, machine.Redirect{State: name, Guard: fmt.Sprintf("max_iterations:%s.%s", from.Name, event)})
				name = from.OnMaxVisits
				continue
			}
		}
		if still && len(chain) == 0 {
			chain = append(chain, machine.Redirect{State: name, Guard: "no_progress"})
			name = state.OnMaxVisits
			continue
		}
		if state.MaxVisits > 0 && v.visits[name] >= state.MaxVisits {
			chain = append(chain, machine.Redirect{State: name, Guard: "max_visits:" + name})
			name = state.OnMaxVisits
			continue
		}
		t := &machine.Transition{
			Event: event, To: name, Intended: target, Redirects: chain,
			Visit: v.visits[name] + 1, Total: v.total + 1, Cause: cause, Artifacts: writes, Uncompensated: n.standingEffects,
		}
		if from != nil {
			t.From = from.Name
		}
		if chain != nil {
			t.Cause = machine.CauseMaxVisits
		}
		if from == nil {
			t.Conversation = n.now.Command.(machine.Start).Conversation
		} else {
			t.AwaitsInput = event != "" && n.waitsAfterEntry(state)
		}
		n.add(t)
		return
	}
}

// waitsAfterEntry: the agent moved, nothing was said meanwhile, and the state's next turn is the user's.
func (n *naive) waitsAfterEntry(to *machine.Node) bool {
	agents, v := agentMoves(n.now.Command), n.view()
	if n.undone {
		agents = n.agentsUndo
	}
	users := map[machine.Control]bool{machine.ControlUser: true, machine.ControlUndeclared: n.start().Conversation}[to.Control]
	return n.now.Semantics >= 8 && agents && users && len(v.dueMessages()) == 0 && !to.Terminal && to.Orchestration != machine.External
}

// agentMoves: an event in the command is of the turn's executor.
func agentMoves(c machine.Command) bool {
	emit, emits := c.(machine.EmitEvent)
	_, completes := c.(machine.CompleteTurn)
	return completes || emits && !emit.Outside
}

func (n *naive) limits() machine.Limits {
	if len(n.entries) == 0 {
		return n.now.Command.(machine.Start).Limits
	}
	return n.start().Limits
}

// pause of a failed attempt of a turn or of a step, the nth that failed, in exact arithmetic.
func (n *naive) pause(p *machine.RetryPolicy, turn uint64, attempt, nth int) int64 {
	text := append([]byte(n.start().RunID), make([]byte, 16)...)
	binary.BigEndian.PutUint64(text[len(text)-16:], turn)
	binary.BigEndian.PutUint64(text[len(text)-8:], uint64(attempt))
	sum := sha256.Sum256(text)
	initial, most, by, share := p.Initial, p.Max, p.Multiplier, int64(200_000)
	if by == 0 {
		by = 2000
	}
	if p.Jitter != nil {
		share = *p.Jitter
	}
	if initial == 0 {
		initial = time.Second
	}
	if most == 0 {
		most = 60 * time.Second
	}
	pause := big.NewInt(int64(initial))
	for range nth - 1 {
		pause.Mul(pause, big.NewInt(by)).Quo(pause, big.NewInt(1000))
	}
	if pause.Cmp(big.NewInt(int64(most))) > 0 {
		pause.SetInt64(int64(most))
	}
	move := int64(binary.BigEndian.Uint32(sum[:4]))%(2*share+1) - share
	shift := new(big.Int).Mul(pause, big.NewInt(move))
	shift.Quo(shift, big.NewInt(1_000_000))
	return max(1, pause.Add(pause, shift).Int64())
}

func (n *naive) assign(a *machine.Assignment) {
	v := n.view()
	if a != nil && v.turn != nil && v.turn.assigned != *a {
		n.add(&machine.TurnAssigned{TurnSeq: v.turn.seq, Attempt: v.turn.attempt, Assigned: *a})
	}
}

func sameAnswer(step *vstep, c machine.ResolveStep) bool {
	if c.OK {
		return step.conversation == "ok "+string(c.Result)
	}
	return step.conversation == "error "+c.Error.Code+"/"+c.Error.Message
}

// bound is the write that an accepted answer makes.
func (n *naive) bound(c machine.ResolveStep) []machine.ArtifactWrite {
	name := n.g.Tools[c.Tool].ResultArtifact
	if name == "" {
		return nil
	}
	var text string
	if strings.HasPrefix(n.g.Artifacts[name].Type, "text/") && bytes.HasPrefix(c.Result, []byte(`"`)) && json.Unmarshal(c.Result, &text) == nil {
		return []machine.ArtifactWrite{{Name: name, Value: []byte(text)}}
	}
	return []machine.ArtifactWrite{{Name: name, Value: c.Result}}
}
