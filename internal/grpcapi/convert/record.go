package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// RecordToProto converts one record of a run. types returns the media types of the run's artifacts. final are the
// artifacts at the end of the run; only the record Ended contains them.
func RecordToProto(row *runtime.RecordRow, types MediaTypes, final []*pawlv1.Artifact) *pawlv1.Record {
	rec := &row.Record
	out := &pawlv1.Record{
		RunId: row.RunID, Seq: rec.Seq, PrevSeq: row.PrevSeq, Cursor: row.Cursor.String(),
		At: TimeToProto(rec.At), Principal: rec.Principal,
		PrevHash: row.PrevHash[:], Hash: row.Hash[:], Erased: row.Erased,
	}
	if ended, ok := rec.Body.(*machine.Ended); ok {
		out.Body = &pawlv1.Record_Ended{Ended: endedToProto(types, ended, final)}
		return out
	}
	if !runBody(types, out, rec.Body) && !turnBody(types, out, rec.Body) && !agentBody(out, rec.Body) {
		stepBody(types, out, rec.Body)
	}
	return out
}

func endedToProto(types MediaTypes, e *machine.Ended, final []*pawlv1.Artifact) *pawlv1.Ended {
	return &pawlv1.Ended{
		Status: pawlv1.RunStatus(e.Status), Reason: e.Reason, Redirects: redirectsToProto(e.Redirects),
		ArtifactsWritten: types.writesToProto(e.Artifacts), FinalArtifacts: final,
		Event: e.Event, IntendedState: e.Intended, Uncompensated: uncompensatedToProto(e.Uncompensated),
	}
}

// runBody sets the body of a record if the record is about the run as a whole. It reports whether it
// has set the body.
func runBody(types MediaTypes, out *pawlv1.Record, body machine.Body) bool {
	switch b := body.(type) {
	case *machine.Transition:
		out.Cause = pawlv1.Cause(b.Cause)
		out.Body = &pawlv1.Record_Transition{Transition: transitionToProto(types, b)}
	case *machine.InputReceived:
		out.Body = &pawlv1.Record_InputReceived{InputReceived: &pawlv1.InputReceived{
			Parts: partsToProto(b.Parts), MessageId: b.MessageID, Queued: b.Queued,
			Envelope: envelopeToProto(b.Envelope), Step: b.Step, Scopes: b.Scopes,
		}}
	case *machine.ArtifactsSet:
		out.Body = &pawlv1.Record_ArtifactsSet{ArtifactsSet: &pawlv1.ArtifactsSet{ArtifactsWritten: types.writesToProto(b.Artifacts)}}
	case *machine.Paused:
		out.Body = &pawlv1.Record_Paused{Paused: &pawlv1.Paused{Note: b.Note}}
	case *machine.Resumed:
		out.Body = &pawlv1.Record_Resumed{Resumed: &pawlv1.Resumed{Note: b.Note}}
	case *machine.BudgetRaised:
		out.Body = &pawlv1.Record_BudgetRaised{BudgetRaised: &pawlv1.BudgetRaised{
			MaxTokens: b.To.Tokens, MaxCostMicroUsd: b.To.CostMicro, PreviousMaxTokens: b.From.Tokens, PreviousMaxCostMicroUsd: b.From.CostMicro, Reason: b.Reason,
		}}
	case *machine.NoChange:
		out.Body = &pawlv1.Record_NoChange{NoChange: &pawlv1.NoChange{Call: b.Command.String(), Id: b.ID}}
	case *machine.CompensationStarted:
		out.Body = &pawlv1.Record_CompensationStarted{CompensationStarted: compensationToProto(types, b)}
	case *machine.Origin:
		out.Body = &pawlv1.Record_Origin{Origin: originToProto(types, b)}
	default:
		return false
	}
	return true
}

func transitionToProto(types MediaTypes, t *machine.Transition) *pawlv1.Transition {
	return &pawlv1.Transition{
		FromState: t.From, Event: t.Event, ToState: t.To, IntendedState: t.Intended,
		Redirects: redirectsToProto(t.Redirects), Visit: int32(t.Visit), TotalVisits: int32(t.Total),
		ArtifactsWritten: types.writesToProto(t.Artifacts), Uncompensated: uncompensatedToProto(t.Uncompensated),
		AwaitsInput: t.AwaitsInput, Conversation: t.Conversation,
	}
}

func redirectsToProto(in []machine.Redirect) []*pawlv1.Redirect {
	if len(in) == 0 {
		return nil
	}
	out := make([]*pawlv1.Redirect, len(in))
	for i, r := range in {
		out[i] = &pawlv1.Redirect{State: r.State, Guard: r.Guard}
	}
	return out
}

// turnBody sets the body of a record if the record is about a turn. It reports whether it has set the
// body.
func turnBody(types MediaTypes, out *pawlv1.Record, body machine.Body) bool {
	switch b := body.(type) {
	case *machine.TurnOpened:
		out.Body = &pawlv1.Record_TurnOpened{TurnOpened: &pawlv1.TurnOpened{State: b.State, Inputs: b.Inputs}}
	case *machine.TurnAssigned:
		out.Body = &pawlv1.Record_TurnAssigned{TurnAssigned: &pawlv1.TurnAssigned{
			TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), Assigned: assignmentToProto(b.Assigned),
		}}
	case *machine.TurnCompleted:
		out.Body = &pawlv1.Record_TurnCompleted{TurnCompleted: &pawlv1.TurnCompleted{
			TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), Output: partsToProto(b.Output), Messages: messagesToProto(b.Messages),
			Usage: usageToProto(b.Usage), Event: b.Event, ArtifactsWritten: types.writesToProto(b.Artifacts),
			Awaiting: pawlv1.Awaiting(b.Await), Reply: b.Reply, ConversationThroughStep: b.ConversationThrough.Step,
		}}
	case *machine.TurnFailed:
		out.Body = &pawlv1.Record_TurnFailed{TurnFailed: &pawlv1.TurnFailed{
			TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), Error: faultToProto(b.Error), Retryable: b.Retryable,
			Next: int32(b.Next), NotBefore: TimeToProto(b.NotBefore), Usage: usageToProto(b.Usage), RejectedStep: b.Rejected,
			Violation: violationToProto(b.Violation),
		}}
	case *machine.TurnAbandoned:
		out.Body = &pawlv1.Record_TurnAbandoned{TurnAbandoned: &pawlv1.TurnAbandoned{TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), Reason: b.Why}}
	case *machine.TurnSuspended:
		out.Body = &pawlv1.Record_TurnSuspended{TurnSuspended: &pawlv1.TurnSuspended{TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), Pending: b.Pending}}
	case *machine.TurnReady:
		out.Body = &pawlv1.Record_TurnReady{TurnReady: &pawlv1.TurnReady{TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt)}}
	default:
		return false
	}
	return true
}

func violationToProto(v *machine.Violation) *pawlv1.Violation {
	if v == nil {
		return nil
	}
	return &pawlv1.Violation{Id: v.ID, Type: v.Type, Place: v.Place, Reason: v.Reason}
}

func assignmentToProto(a machine.Assignment) *pawlv1.Assignment {
	return &pawlv1.Assignment{Worker: a.Worker, Delivery: int32(a.Delivery), At: TimeToProto(a.At)}
}

// stepBody sets the body of a record about a step. It passes all other records to steerBody.
func stepBody(types MediaTypes, out *pawlv1.Record, body machine.Body) {
	switch b := body.(type) {
	case *machine.StepRequested:
		out.Body = &pawlv1.Record_StepRequested{StepRequested: &pawlv1.StepRequested{
			Step: b.Step, Key: b.Key, Tool: b.Tool, TurnSeq: b.TurnSeq, Attempt: int32(b.Attempt), PayloadJson: string(b.Payload),
			Reframe: b.Reframe, Deadline: TimeToProto(b.Deadline), Delegation: b.Delegation,
			Kind: kindToProto(b.Kind, b.Delegation), Model: modelToProto(b.Model), Call: callToProto(b.Call), RequestChanged: b.Changed, Bound: usageToProto(b.Bound), Hold: holdToProto(b.Hold),
			About: aboutToProto(b.About), ByCaller: b.ByCaller, Repeatable: b.Repeatable,
		}}
	case *machine.StepResolved:
		out.Body = &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{
			Step: b.Step, Tool: b.Tool, Attempt: int32(b.Attempt), Ok: b.OK, ResultJson: string(b.Result), Error: faultToProto(b.Error),
			Unknown: b.Unknown, Next: int32(b.Next), Deadline: TimeToProto(b.Deadline), Worker: b.Worker,
			ArtifactsWritten: types.writesToProto(b.Artifacts), Usage: usageToProto(b.Usage),
			Kind: kindToProto(b.Kind, false), Answer: modelAnswerToProto(b.Answer), NotBefore: TimeToProto(b.NotBefore),
		}}
	case *machine.StepRejected:
		out.Body = &pawlv1.Record_StepRejected{StepRejected: &pawlv1.StepRejected{
			Key: b.Key, Tool: b.Tool, TurnSeq: b.TurnSeq, Denial: denialToProto(&b.Denial), Kind: kindToProto(b.Kind, false),
		}}
	case *machine.StepCancelled:
		out.Body = &pawlv1.Record_StepCancelled{StepCancelled: &pawlv1.StepCancelled{Step: b.Step, Tool: b.Tool, Reason: b.Why, Kind: kindToProto(b.Kind, false), Usage: usageToProto(b.Usage)}}
	case *machine.StepDecided:
		out.Body = &pawlv1.Record_StepDecided{StepDecided: decidedToProto(b)}
	case *machine.StepOutcomeUnknown:
		out.Body = &pawlv1.Record_StepOutcomeUnknown{StepOutcomeUnknown: outcomeUnknownToProto(b)}
	case *machine.ModelUpdated:
		out.Body = &pawlv1.Record_ModelUpdated{ModelUpdated: modelUpdatedToProto(b)}
	default:
		steerBody(out, body)
	}
}

func aboutToProto(a *machine.About) *pawlv1.StepAbout {
	if a == nil {
		return nil
	}
	return &pawlv1.StepAbout{Role: pawlv1.StepRole(a.Role), Step: a.Step, Tool: a.Tool}
}

func uncompensatedToProto(list []machine.UncompensatedEffect) []*pawlv1.UncompensatedEffect {
	var out []*pawlv1.UncompensatedEffect
	for _, s := range list {
		out = append(out, &pawlv1.UncompensatedEffect{Step: s.Step, Tool: s.Tool, By: s.By, Code: s.Code})
	}
	return out
}

func outcomeUnknownToProto(b *machine.StepOutcomeUnknown) *pawlv1.StepOutcomeUnknown {
	return &pawlv1.StepOutcomeUnknown{
		Step: b.Step, Tool: b.Tool, Attempt: int32(b.Attempt), Error: faultToProto(b.Error), Worker: b.Worker, By: b.By, Kind: kindToProto(b.Kind, false),
	}
}

func compensationToProto(types MediaTypes, b *machine.CompensationStarted) *pawlv1.CompensationStarted {
	return &pawlv1.CompensationStarted{
		Status: pawlv1.RunStatus(b.Status), Reason: b.Reason, Event: b.Event, IntendedState: b.Intended,
		Redirects: redirectsToProto(b.Redirects), Effects: b.Effects, Pending: b.Pending, ArtifactsWritten: types.writesToProto(b.Artifacts),
	}
}
