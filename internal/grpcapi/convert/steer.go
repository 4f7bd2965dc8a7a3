package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// SteerFromProto converts a SteerRun request.
func SteerFromProto(c Caller, req *pawlv1.SteerRunRequest) (runtime.Request, error) {
	when := machine.SteerWhen(req.GetWhen())
	if when == machine.SteerUnset {
		when = machine.NextModelCall
	}
	return runtime.Request{RunRef: c.Run(req), ID: req.GetRequestId(), Command: machine.Steer{Text: req.GetText(), When: when}}, nil
}

// StopFromProto converts a StopRun request.
func StopFromProto(c Caller, req *pawlv1.StopRunRequest) (runtime.Request, error) {
	return runtime.Request{RunRef: c.Run(req), ID: req.GetRequestId(), Command: machine.Stop{Note: req.GetNote()}}, nil
}

// Steered returns the response of SteerRun.
func Steered(a *Answer) *pawlv1.SteerRunResponse {
	return &pawlv1.SteerRunResponse{
		Record: a.Record(machine.RecSteered), Status: a.Status(), Seq: a.Seq(), Turn: a.TurnRef(), Duplicate: a.Duplicate,
	}
}

// Stopped returns the response of StopRun.
func Stopped(a *Answer) *pawlv1.StopRunResponse {
	return &pawlv1.StopRunResponse{Record: a.Record(machine.RecStopped), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate}
}

// steerBody sets the body of a record about an intervention (a steering message, a stopped turn, a notice) or about
// evals.
func steerBody(out *pawlv1.Record, body machine.Body) {
	switch b := body.(type) {
	case *machine.Steered:
		out.Body = &pawlv1.Record_Steered{Steered: &pawlv1.Steered{Text: b.Text, When: pawlv1.SteerWhen(b.When)}}
	case *machine.Stopped:
		stopped := &pawlv1.Stopped{TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), Note: b.Note, ConversationThroughStep: b.ConversationThrough.Step}
		for _, said := range b.Calls {
			stopped.Calls = append(stopped.Calls, said.Step)
		}
		out.Body = &pawlv1.Record_Stopped{Stopped: stopped}
	case *machine.NoticeAdded:
		out.Body = &pawlv1.Record_NoticeAdded{NoticeAdded: &pawlv1.NoticeAdded{Code: b.Code, Text: b.Text}}
	case *machine.Evaluated:
		out.Body = &pawlv1.Record_Evaluated{Evaluated: evaluatedToProto(b)}
	}
}

// evaluatedToProto converts the results of evals.
func evaluatedToProto(e *machine.Evaluated) *pawlv1.Evaluated {
	out := &pawlv1.Evaluated{}
	for i := range e.Results {
		r := &e.Results[i]
		result := &pawlv1.EvalResult{
			Id: r.ID, Type: r.Type, Prompt: r.Prompt, Trigger: r.Trigger, TurnSeq: r.TurnSeq, VisitSeq: r.VisitSeq,
			Score: float64(r.Score) / machine.ScoreFull, Passed: r.Passed, Explanation: r.Explanation, Error: r.Error, Groups: r.Groups,
			Threshold: r.Threshold,
		}
		if r.Metric != nil {
			result.Metric = r.Metric.Name
		}
		out.Results = append(out.Results, result)
	}
	return out
}

func includedMessagesToProto(messages []conversation.IncludedMessage) (out []*pawlv1.IncludedMessage) {
	for _, h := range messages {
		out = append(out, &pawlv1.IncludedMessage{Seq: h.Seq, Text: h.Text})
	}
	return out
}
