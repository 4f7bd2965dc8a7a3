package rules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the part of the naive implementation for effects: business keys, calls whose
// outcome is unknown, and compensation.

// businessKey stands for the key that the host computes: calls with the same key have the same effect.
func businessKey(tool string, payload []byte) [32]byte {
	return sha256.Sum256([]byte(tool + string(payload)))
}

// readKey assigns the business key to the step that asks for it.
func (n *naive) readKey(v *view, step *vstep, b *machine.StepRequested, r machine.Record) {
	if n.g.Tools[b.Tool].Dedupe == nil {
		return
	}
	step.effect = businessKey(b.Tool, b.Payload)
	v.business[step.effect] = machine.Effect{Key: step.effect, RunID: n.start().RunID, Step: b.Step, PayloadSeq: r.Seq}
}

// duplicate reports whether another step has the effect already. If n.blind is set, only steps
// of this same input count.
func (n *naive) duplicate(req machine.StepRequest) bool {
	v := n.view()
	row, taken := v.business[businessKey(req.Tool, req.Payload)]
	return n.g.Tools[req.Tool].Dedupe != nil && taken && (!n.blind || row.PayloadSeq >= v.firstRecord)
}

// undoable reports whether a turn asked for the step, and a tool compensates it.
func (n *naive) undoable(s *vstep) bool {
	return s.about.Role == 0 && !s.model.is && n.g.Tools[s.tool].Compensate != ""
}

// isUnsent reports whether no worker can have made the call: this input asks for it, it waits for a
// person, or every attempt failed for certain and the time of the next one has not come.
func (v *view) isUnsent(s *vstep) bool {
	return !s.outcomeUnknown && (s.asked >= v.firstRecord || s.awaitsApproval() || s.attempt > 1 && s.begins > v.at)
}

// closeEffect updates the business keys and the list of effects for a step that has ended.
func (n *naive) closeEffect(v *view, s *vstep, unsent, inquired bool) {
	row := v.business[s.effect]
	ok, cancelled := s.status == machine.StepStatusOK, s.status == machine.StepStatusCancelled
	if row.Step == s.n && s.effect != [32]byte{} {
		switch {
		case ok:
			row.AnswerSeq = s.answer
			v.business[s.effect] = row
		case cancelled && unsent, !cancelled && !s.outcomeUnknown:
			delete(v.business, s.effect)
		}
	}
	if cancelled && !unsent {
		s.outcomeUnknown = true
	}
	if !n.undoable(s) || !ok && !s.outcomeUnknown {
		return
	}
	e := machine.CompensableEffect{Step: s.n, Tool: s.tool, PayloadSeq: s.lastAsked(), Key: s.effect, Inquired: inquired}
	if ok {
		e.AnswerSeq = s.answer
	}
	v.effects = append(v.effects, e)
}

// readResolved reads the answer to a step that is not a call of a model.
func (n *naive) readResolved(v *view, b *machine.StepResolved, r machine.Record) {
	step := v.step(b.Step)
	unsent := v.isUnsent(step)
	step.inquiry = 0
	switch {
	case b.Unknown:
		step.outcomeUnknown = true
	case b.Error.Code == "NOT_DONE" && step.wasAsked:
		step.outcomeUnknown = false
	}
	step.wasAsked = false
	switch {
	case b.OK:
		step.status, step.conversation = machine.StepStatusOK, "ok "+string(b.Result)
	case b.Next > 0:
		step.attempt, step.deadline, step.remote, step.begins = b.Next, b.Deadline, vremote{}, max(r.At, b.NotBefore)
		return
	default:
		step.status, step.conversation = machine.StepStatusError, "error "+b.Error.Code+"/"+b.Error.Message
	}
	step.answer, step.deadline, step.bound = r.Seq, 0, machine.Amount{}
	n.readWrites(v, r.Seq, b.Artifacts)
	n.closeEffect(v, step, unsent, b.Error.Code == "OUTCOME_UNKNOWN")
	if step.about.Role != 0 {
		n.concludeOwnStep(v, step, b)
	}
}

// concludeOwnStep handles the answer to a step that the sidecar itself asked for.
func (n *naive) concludeOwnStep(v *view, own *vstep, b *machine.StepResolved) {
	about := own.about
	if v.undo != nil && v.undo.By == own.n {
		if b.OK {
			delete(v.business, v.undo.Now.Key)
		} else {
			v.undo.Uncompensated = append(v.undo.Uncompensated, machine.UncompensatedEffect{Step: about.Step, Tool: about.Tool, By: own.n, Code: b.Error.Code})
		}
		v.undo.By, v.undo.Now = 0, machine.CompensableEffect{}
		return
	}
	if s := v.step(about.Step); s != nil && s.inquiry == own.n || v.undo == nil || len(v.effects) == 0 {
		return
	}
	last := &v.effects[len(v.effects)-1]
	if about.Role != machine.RoleReconcile || last.Step != about.Step {
		return
	}
	switch word, _ := toldBy(b); word {
	case "yes":
		last.AnswerSeq = own.answer
	case "no":
		delete(v.business, last.Key)
		v.effects = v.effects[:len(v.effects)-1]
	}
}

// toldBy returns what the reconcile tool answered about a call: "yes" with the result, "no", or ""
// if the answer is of no use.
func toldBy(b *machine.StepResolved) (word string, result []byte) {
	var fields map[string]json.RawMessage
	if !b.OK || json.Unmarshal(b.Result, &fields) != nil {
		return "", nil
	}
	result = []byte("null")
	if said, ok := fields["result"]; ok {
		result = said
	}
	switch string(fields["happened"]) {
	case "true":
		return "yes", result
	case "false":
		return "no", nil
	}
	return "", nil
}

// readUndo reads a record about effects, and reports whether it is one.
func (n *naive) readUndo(v *view, c machine.Command, r machine.Record) bool {
	switch b := r.Body.(type) {
	case *machine.StepOutcomeUnknown:
		step := v.step(b.Step)
		step.outcomeUnknown, step.inquiry, step.deadline, step.wasAsked = true, b.By, 0, true
	case *machine.StepRequested:
		if b.About == nil {
			return false
		}
		v.readOwn(b, r)
	case *machine.CompensationStarted:
		n.readBegun(v, c, b, r)
	default:
		return false
	}
	return true
}

func (v *view) readOwn(b *machine.StepRequested, r machine.Record) {
	v.lastStep = b.Step
	v.steps = append(v.steps, vstep{
		n: b.Step, key: b.Key, tool: b.Tool, payload: sha256.Sum256(b.Payload), status: machine.StepStatusPending, attempt: 1,
		deadline: b.Deadline, turn: b.TurnSeq, asked: r.Seq, about: *b.About, begins: r.At,
	})
	if b.About.Role == machine.RoleCompensate {
		v.calls++
		v.undo.Now, v.undo.By = v.effects[len(v.effects)-1], b.Step
		v.effects = v.effects[:len(v.effects)-1]
		return
	}
	if s := v.step(b.About.Step); s == nil || s.inquiry != b.Step {
		v.effects[len(v.effects)-1].Inquired = true
	}
}

func (n *naive) readBegun(v *view, c machine.Command, b *machine.CompensationStarted, r machine.Record) {
	n.readWrites(v, r.Seq, b.Artifacts)
	if v.undo == nil {
		v.undo = &machine.Undo{Event: b.Event, Intended: b.Intended, Redirects: b.Redirects}
		if _, timer := c.(machine.FireTimer); b.Status == machine.StatusUnset {
			v.undo.ByAgent = agentMoves(c)
			v.undo.Cause = map[bool]machine.Cause{true: machine.CauseTimeout, false: machine.CauseEvent}[timer]
		}
	}
	v.undo.Status, v.undo.Reason, v.timeoutAt = b.Status, b.Reason, 0
	if b.Status != machine.StatusUnset {
		v.deadline, v.left, v.queue = 0, 0, nil
	}
}

// mayHappen reports whether the pending step may have an effect to compensate, or may report one.
func (n *naive) mayHappen(v *view, s *vstep) bool {
	if s == nil || s.status != machine.StepStatusPending {
		return false
	}
	switch s.about.Role {
	case machine.RoleCompensate:
		return true
	case machine.RoleReconcile:
		about := v.step(s.about.Step)
		return about != nil && about.about.Role == 0 && n.mayHappen(v, about)
	}
	return n.undoable(s) && !s.awaitsApproval() && !v.isUnsent(s)
}

// beginUndo starts the compensation, and reports whether there is anything to compensate.
func (n *naive) beginUndo(begun machine.CompensationStarted) bool {
	v := n.view()
	var keep, cancel []uint32
	for _, i := range v.pending() {
		if n.mayHappen(v, v.step(i)) {
			keep = append(keep, i)
		} else {
			cancel = append(cancel, i)
		}
	}
	if len(v.effects) == 0 && len(keep) == 0 {
		return false
	}
	n.abandon("compensation")
	for _, i := range cancel {
		s := v.step(i)
		n.add(&machine.StepCancelled{Step: i, Tool: s.tool, Why: "compensation", Kind: n.kindOf(s), Usage: n.forgoneUsage(s)})
	}
	begun.Effects, begun.Pending = n.view().lastFirst(), keep
	n.add(&begun)
	return true
}

func (v *view) lastFirst() (steps []uint32) {
	for _, e := range v.effects {
		steps = append([]uint32{e.Step}, steps...)
	}
	return steps
}

// divertEnd records that the run ends after the compensation that is in progress. Until now,
// an event was to follow it.
func (n *naive) divertEnd(status machine.Status, reason string) {
	v := n.view()
	if v.undo.Status == machine.StatusUnset {
		n.add(&machine.CompensationStarted{
			Status: status, Reason: reason, Event: v.undo.Event, Intended: v.undo.Intended, Effects: v.lastFirst(), Pending: v.pending(),
		})
	}
}

// undoNext compensates the last effect if no step is pending. If no effect is left, the run
// continues with its event or its end.
func (n *naive) undoNext() {
	v := n.view()
	if v.undo == nil || len(v.pending()) > 0 {
		return
	}
	if len(v.effects) > 0 {
		last := v.effects[len(v.effects)-1]
		about := machine.About{Role: machine.RoleCompensate, Step: last.Step, Tool: last.Tool, PayloadSeq: last.PayloadSeq, AnswerSeq: last.AnswerSeq}
		by := n.g.Tools[last.Tool].Compensate
		if last.AnswerSeq == 0 && !last.Inquired && n.g.Tools[last.Tool].OnUnknown == machine.Reconcile {
			about.Role, by = machine.RoleReconcile, n.g.Tools[last.Tool].Reconcile
		}
		n.own(by, about)
		return
	}
	u := *v.undo
	if u.Status != machine.StatusUnset {
		n.finish(u.Event, u.Intended, u.Status, u.Reason, u.Redirects, nil, u.Uncompensated)
		return
	}
	n.standingEffects, n.undone, n.agentsUndo = u.Uncompensated, true, u.ByAgent
	n.follow(u.Event, u.Cause, nil)
	n.standingEffects, n.undone = nil, false
}

// own asks for a step on behalf of the sidecar, not of a turn.
func (n *naive) own(tool string, about machine.About) {
	v := n.view()
	step := v.lastStep + 1
	key := fmt.Sprintf("%s/%d/%d", map[machine.StepRole]string{machine.RoleReconcile: "reconcile", machine.RoleCompensate: "compensate"}[about.Role], about.Step, step)
	for slices.ContainsFunc(v.steps, func(s vstep) bool { return s.key == key }) {
		key += "+"
	}
	n.add(&machine.StepRequested{
		Step: step, Key: key, Tool: tool, TurnSeq: v.visitSeq, Attempt: 1, Payload: fmt.Appendf(nil, `{"idempotency_key":"R/%d"}`, about.Step),
		Deadline: n.now.At + n.timeout(tool), About: &about,
	})
}

// resolveDoubt records that the outcome of a step is unknown, and asks the reconcile tool about it.
func (n *naive) resolveDoubt(step *vstep, r machine.StepResolved) {
	n.dropQuestion(step)
	n.add(&machine.StepOutcomeUnknown{
		Step: step.n, Tool: step.tool, Attempt: step.attempt, Error: r.Error, Worker: r.Worker, By: n.view().lastStep + 1, Kind: n.kind(step.tool),
	})
	n.own(n.g.Tools[step.tool].Reconcile, machine.About{Role: machine.RoleReconcile, Step: step.n, Tool: step.tool, PayloadSeq: step.lastAsked()})
}

// dropQuestion cancels the pending question about a step, because the step has an answer without it.
func (n *naive) dropQuestion(step *vstep) {
	if by := n.view().step(step.inquiry); step.inquiry != 0 && by.status == machine.StepStatusPending {
		n.add(&machine.StepCancelled{Step: by.n, Tool: by.tool, Why: "answered", Kind: n.kind(by.tool)})
	}
}

// conclude continues the step that an answered question was about.
func (n *naive) conclude(own *vstep, b *machine.StepResolved, out *verdict) {
	s := n.view().step(own.about.Step)
	if own.about.Role != machine.RoleReconcile || s == nil || s.inquiry != own.n {
		return
	}
	switch word, result := toldBy(b); word {
	case "yes":
		n.add(&machine.StepResolved{
			Step: s.n, Tool: s.tool, Attempt: s.attempt, OK: true, Result: result, Kind: n.kind(s.tool),
			Artifacts: n.bound(machine.ResolveStep{Tool: s.tool, Result: result}), Usage: asUsage(s.bound),
		})
		n.wake()
	case "no":
		n.stepFailed(s, machine.StepResolved{Error: machine.Fault{Code: "NOT_DONE", Message: "the attempt did not happen"}, Usage: asUsage(s.bound)}, true, n.g.Tools[s.tool].OnError, out)
	default:
		fault := machine.Fault{Code: "OUTCOME_UNKNOWN", Message: "nobody knows whether the attempt happened"}
		n.stepFailed(s, machine.StepResolved{Error: fault, Unknown: true, Usage: asUsage(s.bound)}, false, machine.Escalate, out)
	}
}

// refuseUndoing refuses the inputs of turns and people while effects are compensated.
func (n *naive) refuseUndoing() *machine.Error {
	var expected uint64
	switch c := n.now.Command.(type) {
	case machine.EmitEvent:
		expected = c.ExpectedSeq
	case machine.CompleteTurn:
		expected = c.ExpectedSeq
	case machine.SetArtifacts:
		expected = c.ExpectedSeq
	case machine.SendInput:
		if expected = c.ExpectedSeq; c.Step != 0 {
			return nil
		}
	case machine.FailTurn, machine.SuspendTurn, machine.RequestSteps, machine.RequestModel, machine.WriteOutput, machine.Steer, machine.Stop:
	default:
		return nil
	}
	v := n.view()
	if v.undo == nil {
		return nil
	}
	if r := n.refuse(false, 0, 0, expected); r != nil {
		return r
	}
	return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "COMPENSATING", Field: "run_id", Seq: v.seq}
}
