package convert

import (
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// WorkerFromProto converts the registration of a worker.
func WorkerFromProto(call runtime.Call, in *pawlv1.WorkerRegistration) dispatch.WorkerRequest {
	out := dispatch.WorkerRequest{
		Call: call, ID: in.GetWorkerId(), Instance: in.GetInstance(), Client: in.GetClient(), AllowUnknown: in.GetAllowUnknown(),
		Counts: in.ReceivedSteps != nil, Received: in.GetReceivedSteps(),
		Offer: machine.WorkOffer{
			Packs: in.GetPacks(), Prompts: in.GetPrompts(), Agents: in.GetAgents(), Tools: in.GetTools(),
			Turns: int(in.GetTurnCapacity()), Steps: int(in.GetStepCapacity()), Sidecar: call.Principal.Own(),
		},
	}
	for _, lease := range in.GetHeldTurns() {
		out.Turns = append(out.Turns, dispatch.TurnLease{
			RunID: lease.GetRunId(), Turn: lease.GetTurnSeq(), Attempt: int(lease.GetAttempt()),
			Delivery: int(lease.GetDelivery()), Token: lease.GetToken(), Requests: int(lease.GetStepRequests()),
		})
	}
	for _, lease := range in.GetHeldSteps() {
		out.Steps = append(out.Steps, dispatch.StepLease{
			RunID: lease.GetRunId(), Step: lease.GetStep(), Tool: lease.GetTool(),
			Attempt: int(lease.GetAttempt()), Token: lease.GetToken(),
		})
	}
	for _, served := range in.GetServedRuns() {
		out.Served = append(out.Served, ServedFromProto(served))
	}
	return out
}

// ServedFromProto converts the message in which a worker names a run that it serves and the tools that
// it executes.
func ServedFromProto(in *pawlv1.ServeRun) dispatch.Served {
	return dispatch.Served{RunID: in.GetRunId(), Tools: in.GetTools()}
}

// RegisteredToProto returns the response to the registration of a worker.
func RegisteredToProto(conn *dispatch.Connection) *pawlv1.WorkerRegistered {
	out := &pawlv1.WorkerRegistered{
		TurnCapacity: int32(conn.Offer.Turns), StepCapacity: int32(conn.Offer.Steps), Unknown: conn.Unknown,
	}
	for i := range conn.Turns {
		out.KeptTurns = append(out.KeptTurns, TurnLeaseToProto(&conn.Turns[i]))
	}
	for i := range conn.Steps {
		out.KeptSteps = append(out.KeptSteps, stepLeaseToProto(&conn.Steps[i]))
	}
	return out
}

// TurnLeaseToProto converts the lease of a turn.
func TurnLeaseToProto(l *dispatch.TurnLease) *pawlv1.TurnLease {
	return &pawlv1.TurnLease{
		RunId: l.RunID, TurnSeq: l.Turn, Attempt: int32(l.Attempt), Delivery: int32(l.Delivery), Token: l.Token,
		Deadline: TimeToProto(l.Deadline), Duration: durationpb.New(l.Duration),
	}
}

func stepLeaseToProto(l *dispatch.StepLease) *pawlv1.StepLease {
	return &pawlv1.StepLease{RunId: l.RunID, Step: l.Step, Tool: l.Tool, Attempt: int32(l.Attempt), Token: l.Token}
}

// StepAssignmentToProto converts a step that is assigned to a worker.
func StepAssignmentToProto(d *dispatch.StepDelivery) *pawlv1.StepAssignment {
	return &pawlv1.StepAssignment{
		Lease: stepLeaseToProto(&d.StepLease), PayloadJson: string(d.Step.Payload), Key: d.Step.Key,
		TurnSeq: d.Step.TurnSeq, RequestedAt: TimeToProto(d.RequestedAt), Deadline: TimeToProto(d.Step.Deadline),
		Timeout: durationpb.New(d.Left), Pack: PackRefToProto(d.Run.PackID, d.Run.PackVersion, d.Run.Digest), Traceparent: d.Traceparent,
		IdempotencyKey: machine.IdempotencyKey(d.RunID, d.StepLease.Step), Delivery: d.Delivery,
	}
}

// RevocationToProto converts the message that a worker has lost the lease of a turn or step, with the cause.
func RevocationToProto(r *dispatch.Revocation) *pawlv1.Revocation {
	out := &pawlv1.Revocation{Cause: pawlv1.RevokeCause(r.Cause)}
	if r.Turn != nil {
		out.Work = &pawlv1.Revocation_Turn{Turn: TurnLeaseToProto(r.Turn)}
	} else {
		out.Work = &pawlv1.Revocation_Step{Step: stepLeaseToProto(r.Step)}
	}
	return out
}

// ShownFromProto converts a piece of output that a worker sends during a turn.
func ShownFromProto(in *pawlv1.WorkerOutput) dispatch.Shown {
	return dispatch.Shown{
		Token: in.GetToken(), Offset: in.GetOffset(), Text: in.GetText(), Reset: in.GetReset_(), Reasoning: in.GetReasoning(),
	}
}

// OutputToProto converts a piece of a turn's output for a stream of records.
func OutputToProto(c *runtime.OutputChunk) *pawlv1.StreamTransitionsResponse {
	return &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Output{Output: &pawlv1.OutputChunk{
		TurnSeq: c.Turn, Attempt: int32(c.Attempt), Delivery: int32(c.Delivery), Offset: c.Offset, Text: c.Text, Reset_: c.Reset, Reasoning: c.Reasoning,
	}}}
}
