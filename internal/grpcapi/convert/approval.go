package convert

import (
	"encoding/hex"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// digestMark is the prefix of a call's digest in requests and responses.
const digestMark = "sha256:"

// DigestToProto returns the text of the digest of a call. It returns "" for the zero digest.
func DigestToProto(d [32]byte) string {
	if d == [32]byte{} {
		return ""
	}
	return digestMark + hex.EncodeToString(d[:])
}

func digestFromProto(text string) ([32]byte, error) {
	var d [32]byte
	raw, err := hex.DecodeString(strings.TrimPrefix(text, digestMark))
	if err != nil || len(raw) != len(d) {
		return d, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "INVALID_REQUEST", Field: "digest", Message: "want sha256: and 64 hexadecimal digits",
		}
	}
	return [32]byte(raw), nil
}

var decisions = map[pawlv1.StepDecision]machine.Verdict{
	pawlv1.StepDecision_STEP_DECISION_APPROVE: machine.Approved,
	pawlv1.StepDecision_STEP_DECISION_DENY:    machine.Refused,
	pawlv1.StepDecision_STEP_DECISION_EDIT:    machine.Edited,
}

// DecideFromProto converts a DecideStep request.
func DecideFromProto(c Caller, req *pawlv1.DecideStepRequest) (runtime.Request, error) {
	digest, err := digestFromProto(req.GetDigest())
	if err != nil {
		return runtime.Request{}, err
	}
	return runtime.Request{
		RunRef: c.Run(req), ID: req.GetRequestId(),
		Command: machine.DecideStep{
			Step: req.GetStep(), Digest: digest, Verdict: decisions[req.GetDecision()], Payload: []byte(req.GetPayloadJson()),
			Reason: req.GetReason(), Expires: timeFromProto(req.GetExpires()),
		},
	}, nil
}

func approvalToProto(s *machine.ToolStep) *pawlv1.StepApproval {
	a := s.Approval
	if a == nil {
		return nil
	}
	return &pawlv1.StepApproval{
		Held: s.HeldForApproval(), Since: TimeToProto(a.Since), Digest: DigestToProto(a.Digest), Verdict: pawlv1.StepVerdict(a.Verdict),
		DecidedBy: a.By, DecidedAt: TimeToProto(a.At), Expires: TimeToProto(a.Expires), DecidedSeq: a.Seq,
	}
}

func holdToProto(h *machine.ApprovalHold) *pawlv1.ApprovalHold {
	if h == nil {
		return nil
	}
	return &pawlv1.ApprovalHold{ConditionError: h.Why}
}

func decidedToProto(b *machine.StepDecided) *pawlv1.StepDecided {
	return &pawlv1.StepDecided{
		Step: b.Step, Tool: b.Tool, Verdict: pawlv1.StepVerdict(b.Verdict), Digest: DigestToProto(b.Digest), PayloadJson: string(b.Payload),
		Reason: b.Reason, Expires: TimeToProto(b.Expires), Deadline: TimeToProto(b.Deadline),
	}
}

// DecisionsFromProto converts a ListDecisions request. position is the position that its page token contains.
func DecisionsFromProto(call runtime.Call, in *pawlv1.ListDecisionsRequest, position string) *query.DecisionsRequest {
	out := &query.DecisionsRequest{
		Call: call, RunID: in.GetRunId(), From: timeFromProto(in.GetFrom()), To: timeFromProto(in.GetTo()), Tool: in.GetTool(), By: in.GetPrincipal(),
		Pack: in.GetPack(), Labels: labelsFromProto(in.GetLabels()), Position: position, PageSize: int(in.GetPageSize()),
	}
	for _, v := range in.GetVerdicts() {
		out.Verdicts = append(out.Verdicts, machine.Verdict(v))
	}
	return out
}

// DecisionToProto converts a decision that was made.
func DecisionToProto(d *query.Decision) *pawlv1.Decision {
	s := d.State
	return &pawlv1.Decision{
		RunId: s.RunID, PackId: s.PackID, PackVersion: s.PackVersion, Labels: LabelsToProto(s.Labels),
		Record: RecordToProto(&d.Row, nil, nil), Since: TimeToProto(d.Since),
	}
}

// ApprovalToProto converts a call that waits for a decision.
func ApprovalToProto(v *query.WaitingItem) *pawlv1.Approval {
	s := v.State
	out := &pawlv1.Approval{
		RunId: s.RunID, PackId: s.PackID, PackVersion: s.PackVersion, State: s.Current, Labels: LabelsToProto(s.Labels),
		Since: TimeToProto(v.Since), Starter: v.Starter, VisitSeq: s.VisitSeq,
	}
	if v.Call != nil {
		out.Call = StepViewToProto(s.RunID, v.Call)
		out.ConditionError, out.OnTimeout = v.Why, pawlv1.ApprovalTimeout_APPROVAL_TIMEOUT_DENY
		if a := v.Graph.Tools[v.Call.Tool].Approval; a != nil {
			out.NotStarter = a.NotStarter
			if a.Escalate {
				out.OnTimeout = pawlv1.ApprovalTimeout_APPROVAL_TIMEOUT_ESCALATE
			}
		}
		return out
	}
	for _, w := range v.Exits {
		out.Events = append(out.Events, &pawlv1.ExternalEvent{Event: w.Event, ToState: w.To, Description: w.Description, Terminal: w.Terminal})
	}
	out.Artifacts, out.ArtifactsOmitted = ArtifactsToProto(s.Artifacts, v.Artifacts), v.Omitted
	return out
}
