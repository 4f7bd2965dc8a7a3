package validate

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CheckMessage refuses a message of an unknown role, or with parts or JSON that are none.
func CheckMessage(field string, m *machine.Message) error {
	if !slices.Contains(roles, m.Role) {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "UNKNOWN_ROLE", Field: field + ".role",
			Message: fmt.Sprintf("role %q", m.Role), Allowed: roles,
		}
	}
	if err := CheckParts(field+".parts", m.Parts); err != nil {
		return err
	}
	if len(m.ToolCalls) > 0 {
		if err := CheckJSON(field+".tool_calls", m.ToolCalls); err != nil {
			return err
		}
	}
	if len(m.Provider) > 0 {
		return CheckJSON(field+".provider_json", m.Provider)
	}
	return nil
}

// checkModel is what can be said of a request to a model without its run.
func checkModel(cmd machine.RequestModel) (machine.Command, error) {
	switch {
	case cmd.Model == nil || cmd.Model.Model == "":
		return nil, Malformed("MODEL_REQUIRED", "request.model", "must not be empty")
	case cmd.Round < 1:
		return nil, Malformed("BAD_ROUND", "round", "rounds count from 1")
	}
	return cmd, nil
}

// checkModelAnswer is what can be said of what came of a call.
func checkModelAnswer(cmd machine.AnswerModel) (machine.Command, error) {
	a := cmd.Answer
	if a == nil {
		if cmd.Error.Code == "" {
			return nil, Malformed("OUTCOME_REQUIRED", "outcome", "an answer, or why there is none")
		}
		return cmd, nil
	}
	if err := CheckParts("answer.parts", a.Parts); err != nil {
		return nil, err
	}
	if len(a.Provider) > 0 {
		if err := CheckJSON("answer.provider_json", a.Provider); err != nil {
			return nil, err
		}
	}
	return cmd, nil
}

// ModelAnswer takes what came of a call.
func (b Body) ModelAnswer(c *machine.AnswerModel) {
	b.Flag(c.Answer != nil)
	if a := c.Answer; a != nil {
		b.Parts(a.Parts)
		b.Number(uint64(len(a.Calls)))
		for _, call := range a.Calls {
			b.Text(call.ID)
			b.Text(call.Name)
			b.Text(call.Arguments)
		}
		b.texts([]string{a.Refusal, a.Finish, a.Model, a.ResponseID})
		b.Bytes(a.Provider)
		b.named(a)
	}
	b.Fault(c.Error)
	b.Flag(c.Final)
	b.Number(uint64(c.RetryAfter))
	used := c.Usage
	used.Model = "" // that of the step
	b.Usage(used)
}

// named takes what answers had not before; of an answer without it the digest is as it was.
func (b Body) named(a *machine.ModelAnswer) {
	if a.ProviderName != "" {
		b.Text(a.ProviderName)
	}
	for i, call := range a.Calls {
		if call.Broken != "" {
			b.Number(uint64(i))
			b.Text(call.Broken)
		}
	}
}

// AnswerID makes an attempt the idempotency id of what came of it, whoever tells it, and
// whenever: no other execution ever makes that attempt, so what it consumed counts once.
func AnswerID(c *machine.AnswerModel) string {
	return fmt.Sprintf("%smodel/%d/%d", ReservedPrefix, c.Step, c.Attempt)
}

// AttemptOf is the attempt that a step of the visit is in; 0 = there is no such step.
func AttemptOf(s *machine.State, step uint32) int {
	for i := range s.Steps {
		if s.Steps[i].Step == step {
			return s.Steps[i].Attempt
		}
	}
	return 0
}

// TurnID is the idempotency id of a completion that has none of its own: the execution.
func TurnID(seq uint64, attempt int) string {
	return fmt.Sprintf("%sturn/%d/%d", ReservedPrefix, seq, attempt)
}
