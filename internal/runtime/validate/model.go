package validate

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CheckMessage returns an error if a message has an unknown role, invalid parts or invalid JSON. field
// is the name of the message in the request.
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

// checkModel makes the checks of a model request that need no data of the run.
func checkModel(cmd machine.RequestModel) (machine.Command, error) {
	switch {
	case cmd.Model == nil || cmd.Model.Model == "":
		return nil, Malformed("MODEL_REQUIRED", "request.model", "must not be empty")
	case cmd.Round < 1:
		return nil, Malformed("BAD_ROUND", "round", "rounds count from 1")
	}
	return cmd, nil
}

// checkModelAnswer makes the checks of the outcome of a model call that need no data of the run.
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

// ModelAnswer adds the outcome of a model call to the hashed values.
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
		b.addLaterFields(a)
	}
	b.Fault(c.Error)
	b.Flag(c.Final)
	b.Number(uint64(c.RetryAfter))
	used := c.Usage
	used.Model = "" // the step determines the model
	b.Usage(used)
}

// addLaterFields adds to the hashed values the fields of an answer that were introduced later, if they are set.
// So the hash of an answer without them does not change.
func (b Body) addLaterFields(a *machine.ModelAnswer) {
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

// AnswerID returns the idempotency id of the outcome of a model call. It depends only on the step and
// the attempt, so the usage of an attempt is counted once, no matter which caller reports the outcome
// and when.
func AnswerID(c *machine.AnswerModel) string {
	return fmt.Sprintf("%smodel/%d/%d", ReservedPrefix, c.Step, c.Attempt)
}

// AttemptOf returns the number of the current attempt of a step of the visit. It returns 0 if there is
// no such step.
func AttemptOf(s *machine.State, step uint32) int {
	for i := range s.Steps {
		if s.Steps[i].Step == step {
			return s.Steps[i].Attempt
		}
	}
	return 0
}

// TurnID returns the idempotency id of a completion, or of a report of a failed turn, to which the caller
// gave no id. It depends only on the turn and the attempt, so the first completion of an attempt wins.
func TurnID(seq uint64, attempt int) string {
	return fmt.Sprintf("%sturn/%d/%d", ReservedPrefix, seq, attempt)
}
