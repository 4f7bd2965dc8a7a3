package convert

import (
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TurnViewToProto converts a turn with everything that its executor needs.
func TurnViewToProto(v *runtime.TurnView) *pawlv1.GetTurnResponse {
	run := v.Run
	out := &pawlv1.GetTurnResponse{
		Turn: turnToProto(run, &v.TurnRef), Pack: PackRefToProto(run.PackID, run.PackVersion, run.Digest),
		Prompt: v.TurnRef.Prompt, SystemPrompt: v.System, Messages: messagesToProto(v.Messages),
		AllowedEvents: v.Events, Terminal: len(v.Events) == 0,
		Deadline: TimeToProto(run.Deadline), Seq: run.Seq, VisitSeq: run.VisitSeq,
		Suspended: run.Turn.Suspended, NotBefore: TimeToProto(run.Turn.NotBefore),
	}
	if v.Orchestration == machine.External {
		out.AllowedEvents = nil
	}
	for _, t := range v.Tools {
		out.Tools = append(out.Tools, &pawlv1.ToolSpec{
			Name: t.Name, Description: t.Description, ParametersJson: string(t.Parameters), Agent: t.Agent,
		})
	}
	for _, slot := range v.Slots {
		out.ArtifactSlots = append(out.ArtifactSlots, &pawlv1.ArtifactSlot{
			Name: slot.Name, MediaType: slot.Type, Mode: modeToProto(slot.Mode),
		})
	}
	for i := range v.Steps {
		out.Steps = append(out.Steps, StepViewToProto(v.Run.RunID, &v.Steps[i]))
	}
	return out
}

// StepViewToProto converts a step with its payload and answer.
func StepViewToProto(run string, v *history.StepView) *pawlv1.Step {
	out := stepToProto(run, &v.ToolStep)
	out.PayloadJson, out.ResultJson, out.Error = string(v.Payload), string(v.Result), faultToProto(v.Error)
	out.BodiesOmitted = v.Omitted
	withModel(out, v.Request, &v.Recorded)
	return out
}

// OutcomeToProto converts the engine's answer to one step request.
func OutcomeToProto(s *machine.State, a *runtime.StepAnswer, req *machine.StepRequest) *pawlv1.StepOutcome {
	out := &pawlv1.StepOutcome{Key: a.Key, Replayed: a.Replayed, Denial: denialToProto(a.Denial)}
	if a.Step == 0 {
		return out
	}
	out.Step = stepToProto(s.RunID, &machine.ToolStep{Step: a.Step, Key: a.Key, Tool: req.Tool, Status: a.Status, Call: req.Call})
	for i := range s.Steps {
		if s.Steps[i].Step == a.Step {
			out.Step = stepToProto(s.RunID, &s.Steps[i])
		}
	}
	payload := req.Payload
	if a.PayloadSeq != 0 {
		payload = a.Payload
	}
	out.Step.PayloadJson, out.Step.ResultJson, out.Step.Error = string(payload), string(a.Result), faultToProto(a.Error)
	out.Step.BodiesOmitted = a.Omitted
	return out
}

// DescribeSlots adds the pack's descriptions of the artifacts of a state.
func DescribeSlots(p *pack.Pack, state string, slots []*pawlv1.ArtifactSlot) {
	if p.Doc.Workflow == nil || p.Doc.Workflow.States[state] == nil {
		return
	}
	declared := p.Doc.Workflow.States[state].Artifacts
	for _, slot := range slots {
		if a := declared[slot.GetName()]; a != nil {
			slot.Description = a.Description
		}
	}
}

// RemainingToProto converts the remaining budgets.
func RemainingToProto(r *machine.Remaining) *pawlv1.Remaining {
	out := &pawlv1.Remaining{Visits: r.Visits, ToolCalls: r.ToolCalls, Steps: r.Steps, Tokens: r.Tokens, CostMicroUsd: r.CostMicro}
	if r.WallTime != nil {
		out.WallTime = durationpb.New(*r.WallTime)
	}
	return out
}
