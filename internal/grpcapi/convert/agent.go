package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the conversions for runs that belong to an agent or that delegate to agents.

func envelopeToProto(e *machine.Envelope) *pawlv1.Envelope {
	if e == nil {
		return nil
	}
	return &pawlv1.Envelope{
		MessageId: e.MessageID, ContextId: e.ContextID, ReferenceTaskIds: e.References,
		Extensions: e.Extensions, MetadataJson: string(e.Metadata),
	}
}

func taskToProto(t *machine.Task) *pawlv1.TaskInfo {
	if t == nil {
		return nil
	}
	return &pawlv1.TaskInfo{ContextId: t.ContextID, Owner: t.Owner, Tenant: t.Tenant}
}

func remoteToProto(r *machine.Remote) *pawlv1.Remote {
	if r == nil {
		return nil
	}
	return &pawlv1.Remote{
		TaskId: r.TaskID, ContextId: r.ContextID, CardUrl: r.CardURL, Awaiting: pawlv1.Awaiting(r.Asking), AnswerSeq: r.Answer,
	}
}

func pieceFromProto(p *pawlv1.OutputPiece) (machine.OutputPiece, error) {
	out := machine.OutputPiece{
		ID: p.GetId(), Name: p.GetName(), Description: p.GetDescription(), Append: p.GetAppend(), Last: p.GetLast(),
	}
	var err error
	if out.Metadata, err = compactObject("piece.metadata_json", p.GetMetadataJson()); err != nil {
		return out, err
	}
	out.Parts, err = partsFromProto("piece.parts", p.GetParts())
	return out, err
}

func pieceToProto(p *machine.OutputPiece) *pawlv1.OutputPiece {
	return &pawlv1.OutputPiece{
		Id: p.ID, Name: p.Name, Description: p.Description, Parts: partsToProto(p.Parts),
		Append: p.Append, Last: p.Last, MetadataJson: string(p.Metadata),
	}
}

// agentBody sets the body of a record about the agent of a run or a delegation. It reports whether the record is of
// this kind.
func agentBody(out *pawlv1.Record, body machine.Body) bool {
	switch b := body.(type) {
	case *machine.OutputWritten:
		out.Body = &pawlv1.Record_OutputWritten{OutputWritten: &pawlv1.OutputWritten{
			TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), Piece: pieceToProto(&b.Piece),
		}}
	case *machine.StepDelegated:
		out.Body = &pawlv1.Record_StepDelegated{StepDelegated: &pawlv1.StepDelegated{
			Step: b.Step, Tool: b.Tool, Attempt: int32(b.Attempt), Remote: remoteToProto(&b.Remote), Question: partsToProto(b.Question),
		}}
	default:
		return false
	}
	return true
}
