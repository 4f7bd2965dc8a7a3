package trace

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// Slim returns a record without the payloads of callers. The result contains everything that
// [Fold.Take] reads. It is small even if the artifacts and messages of the record are large.
func Slim(r *machine.Record) machine.Record {
	out := machine.Record{Seq: r.Seq, At: r.At, Body: r.Body}
	switch b := r.Body.(type) {
	case *machine.Transition:
		slim := *b
		slim.Artifacts = nil
		out.Body = &slim
	case *machine.TurnCompleted:
		out.Body = &machine.TurnCompleted{TurnSeq: b.TurnSeq, Attempt: b.Attempt, Usage: b.Usage, Event: b.Event}
	case *machine.StepRequested:
		slim := *b
		slim.Payload, slim.Model = nil, nil
		out.Body = &slim
	case *machine.StepResolved:
		slim := *b
		slim.Result, slim.Artifacts = nil, nil
		if b.Answer != nil {
			slim.Answer = &machine.ModelAnswer{Model: b.Answer.Model, ResponseID: b.Answer.ResponseID, Finish: b.Answer.Finish, ProviderName: b.Answer.ProviderName}
		}
		out.Body = &slim
	case *machine.StepDelegated:
		slim := *b
		slim.Question = nil
		out.Body = &slim
	case *machine.Ended:
		slim := *b
		slim.Artifacts = nil
		out.Body = &slim
	case *machine.Origin:
		out.Body = &machine.Origin{RunID: b.RunID, Seq: b.Seq, State: b.State}
	case *machine.TurnOpened, *machine.TurnAssigned, *machine.TurnFailed, *machine.TurnAbandoned, *machine.Stopped, *machine.StepCancelled:
		// These records are small, so they are returned whole.
	default:
		// No span begins or ends with a record of any other kind. Only its position in the order of
		// records is needed.
		out.Body = &machine.Resumed{}
	}
	return out
}
