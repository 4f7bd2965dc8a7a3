package runtime

import (
	"cmp"

	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// stamp makes the machine's Input from the operation. It adds everything from outside that the pure
// machine cannot read itself: the time, the principal, the token, prices and hashes.
func (t *execution) stamp(outside bool) {
	t.input = machine.Input{
		At: t.e.cfg.Clock.Now().UnixNano(), Principal: t.op.principal.Name(), ID: t.op.id, BodyHash: t.op.hash,
		Semantics: machine.Current,
	}
	b := validate.NewBody(machine.KindOf(t.op.command))
	switch cmd := t.op.command.(type) {
	case machine.EmitEvent:
		cmd.Outside, cmd.Assigned = outside, t.grant.assignment()
		cmd.Artifacts = validate.CompactWrites(t.program.Graph, cmd.Artifacts)
		b.Text(cmd.Event)
		b.Writes(t.program.Graph, cmd.Artifacts)
		cmd.Violation = t.emitViolation(&cmd)
		t.input.Command = cmd
	case machine.SetArtifacts:
		cmd.Artifacts = validate.CompactWrites(t.program.Graph, cmd.Artifacts)
		b.Writes(t.program.Graph, cmd.Artifacts)
		t.input.Command = cmd
	case machine.CompleteTurn:
		t.input.Command = t.stampComplete(cmd, outside, &b)
	case machine.FailTurn:
		t.resolveExecution(&cmd.TurnSeq, &cmd.Attempt)
		cmd.Assigned = t.grant.assignment()
		b.Fault(cmd.Error)
		b.Flag(cmd.Retryable)
		b.Usage(cmd.Usage)
		b.Flag(cmd.Reject)
		cmd.Usage = t.e.cfg.Prices.Stamp(t.program.Graph, cmd.Usage)
		t.input.Command = cmd
		t.setImplicitID(cmd.TurnSeq, cmd.Attempt)
	case machine.SuspendTurn:
		t.resolveExecution(&cmd.TurnSeq, &cmd.Attempt)
		cmd.Assigned = t.grant.assignment()
		t.input.Command = cmd
	case machine.WriteOutput:
		t.resolveExecution(&cmd.TurnSeq, &cmd.Attempt)
		cmd.Assigned = t.grant.assignment()
		b.Piece(&cmd.Piece)
		t.input.Command = cmd
	case machine.SendInput:
		if cmd.Step != 0 {
			cmd.Scopes = t.op.principal.Scopes.Names()
		}
		b.Plain(cmd)
		t.input.Command = cmd
	case machine.RequestSteps:
		t.input.Command = t.stampSteps(cmd, &b)
	case machine.ResolveStep:
		t.input.Command = t.stampResolve(cmd, &b)
	case machine.RequestModel, machine.AnswerModel, machine.UpdateModelCall:
		t.input.Command = t.stampModel(cmd, &b)
	default:
		b.Plain(cmd)
		t.input.Command = cmd
	}
	if t.input.ID != "" && t.op.start == nil {
		t.input.BodyHash = b.Sum()
	}
	b.Free()
}

func (t *execution) stampComplete(cmd machine.CompleteTurn, outside bool, b *validate.Body) machine.CompleteTurn {
	t.resolveExecution(&cmd.TurnSeq, &cmd.Attempt)
	cmd.Outside, cmd.Assigned = outside, t.grant.assignment()
	cmd.Artifacts = validate.CompactWrites(t.program.Graph, cmd.Artifacts)
	b.Parts(cmd.Output)
	b.Messages(cmd.Messages)
	b.Usage(cmd.Usage)
	b.Text(cmd.Event)
	b.Writes(t.program.Graph, cmd.Artifacts)
	b.Number(uint64(cmd.Await))
	b.Flag(cmd.Reply)
	cmd.Usage = t.e.cfg.Prices.Stamp(t.program.Graph, cmd.Usage)
	if cmd.ConversationThroughStep != 0 {
		b.Number(uint64(cmd.ConversationThroughStep))
	}
	t.setImplicitID(cmd.TurnSeq, cmd.Attempt)
	cmd.Violation = t.completeViolation(&cmd)
	return cmd
}

func (t *execution) stampSteps(cmd machine.RequestSteps, b *validate.Body) machine.RequestSteps {
	if cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.Attempt); cmd.Assigned != nil {
		cmd.First = t.grant.Requests + 1
	}
	requests := make([]machine.StepRequest, len(cmd.Requests))
	for i, r := range cmd.Requests {
		r.ByCaller = r.ByCaller && t.op.holder == nil && !t.program.Graph.Tools[r.Tool].Agent
		r.PayloadHash = validate.PayloadHash(r.Payload)
		if r.Denied == nil {
			r.Denied = t.denial(&r)
		}
		if r.Denied == nil {
			r.Effect, r.Denied = t.older.KeyOf(r.Tool, t.program.Graph.Tools[r.Tool].Dedupe, r.Payload)
		}
		if t.program.Graph.Tools[r.Tool].Agent {
			r.Policy = validate.Policy(t.e.allow, r.Tool)
			r.Local = t.e.cfg.Local != nil && t.e.cfg.Local(t.op.key.Namespace, t.state.PackID, r.Tool)
		}
		requests[i] = r
		b.Text(r.Key)
		b.Text(r.Tool)
		b.Bytes(r.PayloadHash[:])
		b.Flag(r.Reframe)
	}
	for i := range requests {
		if requests[i].ByCaller {
			b.Number(uint64(i))
		}
	}
	cmd.Requests = requests
	return cmd
}

// denial returns the engine's own refusal of a step. It returns nil if the step is not refused. It checks
// the operator's allowlist, then the prompt's tool choice, then the JSON Schema of the tool's parameters.
func (t *execution) denial(r *machine.StepRequest) *machine.Denial {
	if denied := approval.Denied(t.e.allow, t.program.Graph, r.Tool); denied != nil {
		return denied
	}
	if denied := t.choiceDenied(r); denied != nil {
		return denied
	}
	return validate.Denial(t.program, r)
}

func (t *execution) stampResolve(cmd machine.ResolveStep, b *validate.Body) machine.ResolveStep {
	if cmd.Metered {
		b.Usage(cmd.Usage)
	}
	cmd.Worker, cmd.Usage = t.grant.Worker, t.e.cfg.Prices.Stamp(t.program.Graph, cmd.Usage)
	b.Number(uint64(cmd.Step))
	b.Text(cmd.Tool)
	b.Number(uint64(cmd.Attempt))
	b.Flag(cmd.OK)
	b.JSON(cmd.Result)
	b.Fault(cmd.Error)
	b.Flag(cmd.Final)
	b.Number(uint64(cmd.RetryAfter))
	if cmd.Unknown {
		b.Flag(true)
	}
	cmd.Attempt = cmp.Or(cmd.Attempt, validate.AttemptOf(t.state, cmd.Step))
	return cmd
}

// resolveExecution sets the execution of a request that does not name one. It uses the execution of the
// token or, without a token, the current execution of the open turn.
func (t *execution) resolveExecution(seq *uint64, attempt *int) {
	turn := t.state.Turn
	switch {
	case *seq != 0 && *attempt != 0:
	case *seq == 0 && t.grant.Turn != 0:
		*seq, *attempt = t.grant.Turn, t.grant.Attempt
	case *seq == 0:
		if tok, ok := t.e.runTable.known(t.op.key, t.op.token); ok {
			*seq, *attempt = tok.Turn, tok.Attempt
		} else if turn != nil {
			*seq, *attempt = turn.Seq, turn.Attempt
		}
	case turn != nil && turn.Seq == *seq:
		*attempt = turn.Attempt
	default:
		*attempt = 1
	}
}

// setImplicitID makes the execution itself the idempotency id of a completion that has no id. So the
// first completion of an execution wins.
func (t *execution) setImplicitID(seq uint64, attempt int) {
	if t.input.ID != "" || seq == 0 {
		return
	}
	t.op.implicitID = true
	t.input.ID = validate.TurnID(seq, attempt)
}
