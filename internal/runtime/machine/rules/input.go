package rules

import (
	"fmt"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CheckUsage returns an error for negative figures, because they would increase the remaining budget.
// It also returns an error if a part is larger than its total.
func CheckUsage(u machine.Usage) error {
	refusal := &machine.Error{Code: machine.CodeInvalidArgument, Reason: "BAD_USAGE"}
	switch {
	case min(u.InputTokens, u.OutputTokens, u.CachedTokens, u.ReasoningTokens, u.CostMicro) < 0 || u.ToolCalls < 0:
		refusal.Reason, refusal.Field, refusal.Message = "NEGATIVE_USAGE", "usage", "usage figures must be 0 or more"
	case u.CachedTokens > u.InputTokens:
		refusal.Field, refusal.Message = "usage.cached_tokens", "are a part of input_tokens, and there are more of them"
		refusal.Limit, refusal.Got = u.InputTokens, u.CachedTokens
	case u.ReasoningTokens > u.OutputTokens:
		refusal.Field, refusal.Message = "usage.reasoning_tokens", "are a part of output_tokens, and there are more of them"
		refusal.Limit, refusal.Got = u.OutputTokens, u.ReasoningTokens
	default:
		return nil
	}
	return refusal
}

// ExpectedSeq returns the VisitSeq that a command expects. 0 means that it is not checked.
func ExpectedSeq(c machine.Command) uint64 {
	switch c := c.(type) {
	case machine.EmitEvent:
		return c.ExpectedSeq
	case machine.SendInput:
		return c.ExpectedSeq
	case machine.SetArtifacts:
		return c.ExpectedSeq
	case machine.CompleteTurn:
		return c.ExpectedSeq
	}
	return 0
}

// First returns the first error in a list of check results, or nil.
func First(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckDelegation checks that an attempt has only one task, and that an answer in the command is the
// answer that waits to be sent.
func CheckDelegation(step *machine.ToolStep, c *machine.NoteDelegation) error {
	if !step.Delegation {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "NO_DELEGATION", Field: "step",
			Message: fmt.Sprintf("step %d calls the tool %q, which is no agent", step.Step, step.Tool),
		}
	}
	known := step.Remote
	if known != nil && known.TaskID != "" && known.TaskID != c.Remote.TaskID {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "DELEGATION_MOVED", Field: "task_id",
			Message: fmt.Sprintf("the delegation is task %q, not %q", known.TaskID, c.Remote.TaskID),
		}
	}
	if c.Remote.Answer != 0 && (known == nil || known.Answer != c.Remote.Answer) {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_ANSWER", Field: "answer",
			Message: fmt.Sprintf("record %d is not the answer that waits to be sent", c.Remote.Answer),
		}
	}
	return nil
}

// CheckReject returns an error for a report that rejects the work and also requests another attempt.
func CheckReject(c *machine.FailTurn) error {
	if !c.Reject || !c.Retryable {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "REJECT_RETRYABLE", Field: "retryable",
		Message: "work that is refused is not tried again",
	}
}

// PieceBytes returns the number of bytes that a piece of output adds to the run's messages.
func PieceBytes(p *machine.OutputPiece) int64 {
	return PartsBytes(p.Parts) + int64(len(p.ID)+len(p.Name)+len(p.Description)+len(p.Metadata))
}

// CheckPiece checks that a piece names an artifact, and that only the last piece is empty.
func CheckPiece(p *machine.OutputPiece) error {
	if p.ID == "" {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "OUTPUT_ID_REQUIRED", Field: "piece.id", Message: "name the artifact that the parts belong to"}
	}
	if len(p.Parts) == 0 && !p.Last {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_PARTS", Field: "piece.parts", Message: "a piece without parts must be the last one"}
	}
	return nil
}

// CheckSteer checks that a steering message has a text and a valid time.
func CheckSteer(c *machine.Steer) error {
	if c.Text == "" {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_TEXT", Field: "text", Message: "say something"}
	}
	if !c.When.Known() {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "WHEN_UNKNOWN", Field: "when", Message: "say when it counts",
			Allowed: []string{"next_model_call", "now", "next_turn"},
		}
	}
	return nil
}

// CheckModelRequest checks that a model call has a request.
func CheckModelRequest(c *machine.RequestModel) error {
	if c.Model != nil {
		return nil
	}
	return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_REQUESTS", Field: "request", Message: "say what the model is asked"}
}

// NotModel returns the error for a model's answer to a step that is not a model call.
func NotModel(step *machine.ToolStep, key string) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "key",
		Message: fmt.Sprintf("step %d with the key %q calls the tool %q, no model", step.Step, key, step.Tool),
	}
}

// RequestBytes returns the number of bytes that a model request adds to the run's messages.
func RequestBytes(r *machine.ModelRequest) int64 {
	n := int64(len(r.System.Text) + len(r.Tools.Text) + len(r.Parameters.Text))
	for i := range r.Messages {
		if m := r.Messages[i].Message; m != nil {
			n += MessagesBytes([]machine.Message{*m})
		}
	}
	return n
}

// AnswerBytes returns the number of bytes that a model's answer adds to the run's messages.
func AnswerBytes(a *machine.ModelAnswer) int64 {
	n := PartsBytes(a.Parts) + int64(len(a.Refusal)+len(a.Provider))
	for _, call := range a.Calls {
		n += int64(len(call.ID) + len(call.Name) + len(call.Arguments) + len(call.Broken))
	}
	return n
}

// CallKey returns the key of the step that makes a call in a model's answer, or an error if there is no such
// call. field is the path of the request field for the error.
func CallKey(steps []machine.ToolStep, ref *machine.CallRef, field string) (string, error) {
	i := FindStep(steps, ref.Step)
	if i < 0 || steps[i].Model == nil || steps[i].Status != machine.StepStatusOK {
		return "", &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: field + ".model_step",
			Message: fmt.Sprintf("step %d is no answered call of a model in this visit", ref.Step),
		}
	}
	if n := steps[i].Model.Calls; ref.Index < 0 || ref.Index >= n {
		return "", &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_CALL", Field: field + ".index",
			Message: fmt.Sprintf("the model made %d calls, counted from 0", n), Limit: int64(n) - 1, Got: int64(ref.Index),
		}
	}
	return steps[i].Key + "/" + strconv.Itoa(ref.Index), nil
}
