package runtime

import (
	"cmp"
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// stamp makes the machine's Input from the operation. It adds everything from outside that the machine,
// as a pure function, cannot read itself: the time, the principal, the execution, prices and hashes.
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
		if cmd.Rejected != 0 {
			b.Number(uint64(cmd.Rejected)) // added only if set, so that the hashes of older requests do not change
		}
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

// stampComplete adds to a completion what only the engine knows: the turn, the delivery, the prices, and the first
// violated validator. It adds the completion to the hash of the input.
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

// stampSteps adds to a request for tool calls what only the engine knows: the delivery, the hashes of the
// payloads, the denials of the tool policy and the business keys. It adds the request to the hash of the input.
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
		r.Repeatable = t.isRepeatable(&r)
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
		if call := requests[i].Call; call != nil {
			b.Text("call")
			b.Number(uint64(i))
			b.Number(uint64(call.Step))
			b.Number(uint64(call.Index))
		}
	}
	cmd.Requests = requests
	return cmd
}

// isRepeatable reports whether a call may be made again after an unknown outcome because of what the operator configures. The
// pack's on_unknown comes first, and so does a caller that makes the call itself.
func (t *execution) isRepeatable(r *machine.StepRequest) bool {
	return t.e.cfg.Repeatable != nil && !t.program.Graph.Tools[r.Tool].OnUnknownSet && !r.ByCaller && t.e.cfg.Repeatable(r.Tool)
}

// denial returns the engine's own refusal of a requested step, or nil. It checks the operator's
// allowlist, then the prompt's tool choice, then the JSON Schema of the tool's parameters.
func (t *execution) denial(r *machine.StepRequest) *machine.Denial {
	if denied := approval.AllowlistDenial(t.e.allow, t.program.Graph, r.Tool); denied != nil {
		return denied
	}
	if denied := t.choiceDenied(r); denied != nil {
		return denied
	}
	return validate.Denial(t.program, r)
}

// stampResolve adds to an answer of a step what only the engine knows: the worker, the prices and the attempt. It
// adds the answer to the hash of the input.
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

// resolveExecution sets the turn and attempt of a request that does not name them. It uses those of the
// token or, without a token, those of the open turn. If the request names only the turn, the attempt is the
// current one of the open turn, or 1 for another turn.
func (t *execution) resolveExecution(seq *uint64, attempt *int) {
	turn := t.state.Turn
	switch {
	case *seq != 0 && *attempt != 0:
	case *seq == 0 && t.grant.Turn != 0:
		*seq, *attempt = t.grant.Turn, t.grant.Attempt
	case *seq == 0:
		if tok, ok := t.e.runTable.findGrant(t.op.key, t.op.token); ok {
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

// setImplicitID makes the attempt of the turn the idempotency id of a completion or of a report of a
// failure that has no id. So only the first one of each kind is applied for an attempt.
func (t *execution) setImplicitID(seq uint64, attempt int) {
	if t.input.ID != "" || seq == 0 {
		return
	}
	t.op.implicitID = true
	t.input.ID = validate.TurnID(seq, attempt)
}

// withSteps adds the recorded answers of the requested steps to the answer of an input. If the machine
// reported an error although the input was committed, withSteps returns this error together with the
// answer.
func (t *execution) withSteps(ctx context.Context, answer Answer, result machine.Result) (Answer, error) {
	key := RunKey{Namespace: t.op.key.Namespace, ID: answer.RunID}
	var err error
	if len(result.Steps) > 0 {
		if answer.Steps, err = t.e.history.Answers(ctx, key, result.Steps); err != nil {
			return Answer{}, err
		}
		approval.Withhold(answer.State, t.input.Command, answer.Steps)
	}
	if cmd, ok := t.input.Command.(machine.RequestModel); ok {
		if answer.IncludedMessages, err = conversation.IncludedMessages(ctx, t.e.history, key, cmd.Model); err != nil {
			return Answer{}, err
		}
	}
	return answer, result.Refused
}

// countRequests adds the requests of the input to the number of step requests under its token, because the
// default keys of later requests continue after that number. Suspending the turn sets the number to 0, so
// that the next execution begins with the same keys.
func (t *execution) countRequests() {
	if t.grant.Token == "" {
		return
	}
	switch cmd := t.input.Command.(type) {
	case machine.RequestSteps:
		if t.op.holder != nil {
			t.op.holder.Counted(t.grant.Token, len(cmd.Requests))
			return
		}
		t.e.runTable.setRequestCount(t.op.key, t.grant.Token, t.grant.Requests+len(cmd.Requests))
	case machine.SuspendTurn:
		if t.op.holder == nil {
			t.e.runTable.setRequestCount(t.op.key, t.grant.Token, 0)
		}
	}
}

// prepare completes a command with stored data: it resolves the references to messages in a model
// request, checks what the command writes, and adds the approval data to commands about tool calls.
func (t *execution) prepare(ctx context.Context) (err error) {
	switch t.op.command.(type) {
	case machine.RequestModel, machine.AnswerModel:
		t.op.command, err = conversation.Resolve(ctx, t.e.history, t.op.key, t.state, t.op.command)
	}
	if err != nil || t.state == nil || t.state.Status.Terminal() {
		return err
	}
	if err = validate.CheckWrites(t.program.Graph, t.op.command); err != nil {
		return err
	}
	if err = validate.CheckVerdict(t.state, t.op.command); err != nil {
		return err
	}
	switch t.op.command.(type) {
	case machine.RequestSteps, machine.DecideStep:
		scene := approval.RunContext{Past: t.e.history, Key: t.op.key, State: t.state, Program: t.program, By: t.op.principal}
		t.op.command, err = scene.Prepare(ctx, t.op.command)
	}
	return err
}

// stampModel adds the execution, the operator's prices, and the result of the policy or validator checks
// to a command about a model call.
func (t *execution) stampModel(c machine.Command, b *validate.Body) machine.Command {
	switch cmd := c.(type) {
	case machine.RequestModel:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.Attempt)
		cmd.Denied = t.roundDenied(&cmd)
		cmd.Bound = t.e.cfg.Prices.StampOf(cmd.Model.Model, t.program.Graph, cmd.Bound)
		return cmd
	case machine.UpdateModelCall:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.TurnAttempt)
		return cmd
	case machine.AnswerModel:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.TurnAttempt)
		b.ModelAnswer(&cmd)
		cmd.Usage = t.e.cfg.Prices.Stamp(t.program.Graph, cmd.Usage)
		cmd.Violation = t.answerViolation(&cmd)
		t.op.implicitID, t.input.ID = true, validate.AnswerID(&cmd)
		return cmd
	}
	return c
}

// assignmentOf sets the turn and attempt of a request that does not name them. It returns the delivery
// (assignment of the turn to an executor) under which the request is made. For a worker this is the
// delivery of its lease. For a caller it has only the number of its token. It returns nil if the request
// has no valid token.
func (t *execution) assignmentOf(seq *uint64, attempt *int) *machine.Assignment {
	if t.resolveExecution(seq, attempt); t.grant.Token == "" {
		return nil
	}
	return &machine.Assignment{Worker: t.grant.Worker, Delivery: t.grant.Delivery, At: t.grant.At}
}
