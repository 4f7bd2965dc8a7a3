package codec

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// recordField is the field of Record for a kind of body: kinds are numbered
// from 1, the fields from 3.
func recordField(k machine.RecordKind) protowire.Number { return protowire.Number(k) + 2 }

// appendRecord leaves out what the entry already says: seq, and time and
// principal where they are the input's.
func appendRecord(b []byte, num protowire.Number, in *machine.Input, of *bodies, r *machine.Record) ([]byte, error) {
	if r.Body == nil {
		return nil, fmt.Errorf("encode record %d: no body", r.Seq)
	}
	b, mark := open(b, num)
	b = appendSint(b, 1, r.At-in.At)
	if r.Principal != in.Principal {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = protowire.AppendString(b, r.Principal)
	}
	b, inner := open(b, recordField(machine.RecordKindOf(r.Body)))
	b, err := appendBody(b, of, r.Body)
	if err != nil {
		return nil, fmt.Errorf("encode record %d: %w", r.Seq, err)
	}
	return shut(shut(b, inner), mark), nil
}

func appendBody(b []byte, of *bodies, body machine.Body) ([]byte, error) {
	switch r := body.(type) {
	case *machine.Transition:
		return appendTransition(b, of, r), nil
	case *machine.InputReceived:
		return appendInputReceived(b, of, r), nil
	case *machine.ArtifactsSet:
		return appendWritesOrFlag(b, 1, r.Artifacts, of), nil
	case *machine.Paused:
		return appendString(b, 1, r.Note), nil
	case *machine.Resumed:
		return appendString(b, 1, r.Note), nil
	case *machine.Origin:
		return appendOrigin(b, of, r), nil
	case *machine.Ended:
		b = appendUint(b, 1, uint64(r.Status))
		b = appendString(b, 2, r.Reason)
		b = appendRedirects(b, 3, r.Redirects)
		b = appendWritesOrFlag(b, 4, r.Artifacts, of)
		b = appendString(b, 6, r.Event)
		return appendString(b, 7, r.Intended), nil
	case *machine.Noted:
		b = appendUint(b, 1, uint64(r.Command))
		return appendString(b, 2, r.ID), nil
	}
	return appendTurnBody(b, of, body)
}

func appendInputReceived(b []byte, of *bodies, r *machine.InputReceived) []byte {
	ref := of.queued(r.Parts)
	switch {
	case sameParts(r.Parts, of.parts):
		b = appendBool(b, 2, true)
	case ref == 0:
		b = appendParts(b, 1, r.Parts)
	}
	b = appendString(b, 3, r.MessageID)
	b = appendBool(b, 4, r.Queued)
	b = appendUint(b, 20, ref)
	b = appendEnvelope(b, 30, r.Envelope)
	b = appendUint(b, 31, uint64(r.Step))
	return appendStrings(b, 32, r.Scopes)
}

// appendTurnBody writes the records of turns and steps.
func appendTurnBody(b []byte, of *bodies, body machine.Body) ([]byte, error) {
	switch r := body.(type) {
	case *machine.TurnOpened:
		b = appendString(b, 1, r.State)
		return appendPacked(b, 2, r.Inputs), nil
	case *machine.TurnAssigned:
		b = appendTurnRef(b, r.TurnSeq, r.Attempt)
		return appendAssignment(b, 3, &r.Assigned), nil
	case *machine.TurnCompleted:
		return appendTurnCompleted(b, of, r), nil
	case *machine.TurnFailed:
		return appendTurnFailed(b, of, r), nil
	case *machine.TurnAbandoned:
		b = appendTurnRef(b, r.TurnSeq, r.Attempt)
		return appendString(b, 3, r.Why), nil
	case *machine.TurnSuspended:
		b = appendTurnRef(b, r.TurnSeq, r.Attempt)
		return appendPacked(b, 3, r.Pending), nil
	case *machine.TurnReady:
		return appendTurnRef(b, r.TurnSeq, r.Attempt), nil
	case *machine.StepRequested:
		return appendStepRequested(b, of, r), nil
	case *machine.StepResolved:
		return appendStepResolved(b, of, r), nil
	case *machine.StepRejected:
		b = appendString(b, 1, r.Key)
		b = appendString(b, 2, r.Tool)
		b = appendUint(b, 3, r.TurnSeq)
		return appendFault(b, 4, faultOf(r.Denial)), nil
	case *machine.StepCancelled:
		b = appendUint(b, 1, uint64(r.Step))
		b = appendString(b, 2, r.Tool)
		return appendString(b, 3, r.Why), nil
	}
	return appendAgentBody(b, of, body)
}

// appendWritesOrFlag writes a list as field num, or as the flag num+1 when it is
// the input's own.
func appendWritesOrFlag(b []byte, num protowire.Number, ws []machine.ArtifactWrite, of *bodies) []byte {
	if sameWrites(ws, of.artifacts) {
		return appendBool(b, num+1, true)
	}
	return appendWrites(b, num, ws, of)
}

func appendTransition(b []byte, of *bodies, r *machine.Transition) []byte {
	b = appendString(b, 1, r.From)
	b = appendString(b, 2, r.Event)
	b = appendString(b, 3, r.To)
	if r.Intended != r.To {
		b = protowire.AppendTag(b, 4, protowire.BytesType)
		b = protowire.AppendString(b, r.Intended)
	}
	b = appendRedirects(b, 5, r.Redirects)
	b = appendInt(b, 6, int64(r.Visit))
	b = appendInt(b, 7, int64(r.Total))
	b = appendUint(b, 8, uint64(r.Cause))
	return appendWritesOrFlag(b, 9, r.Artifacts, of)
}

func appendRedirects(b []byte, num protowire.Number, rs []machine.Redirect) []byte {
	for i := range rs {
		var mark int
		b, mark = open(b, num)
		b = appendString(b, 1, rs[i].State)
		b = appendString(b, 2, rs[i].Guard)
		b = shut(b, mark)
	}
	return b
}

func appendTurnCompleted(b []byte, of *bodies, r *machine.TurnCompleted) []byte {
	b = appendTurnRef(b, r.TurnSeq, r.Attempt)
	if sameParts(r.Output, of.output) {
		b = appendBool(b, 4, true)
	} else {
		b = appendParts(b, 3, r.Output)
	}
	if sameMessages(r.Messages, of.messages) {
		b = appendBool(b, 6, true)
	} else {
		b = appendMessages(b, 5, r.Messages)
	}
	b = appendUsage(b, 7, r.Usage)
	b = appendString(b, 8, r.Event)
	b = appendWritesOrFlag(b, 9, r.Artifacts, of)
	b = appendUint(b, 30, uint64(r.Await))
	return appendBool(b, 31, r.Reply)
}

func appendTurnFailed(b []byte, of *bodies, r *machine.TurnFailed) []byte {
	b = appendTurnRef(b, r.TurnSeq, r.Attempt)
	b = appendFaultOrFlag(b, 3, r.Error, of)
	b = appendBool(b, 5, r.Retryable)
	b = appendInt(b, 6, int64(r.Next))
	b = appendTime(b, 7, r.NotBefore)
	return appendUsage(b, 8, r.Usage)
}

// appendFaultOrFlag writes a fault as field num, or as the flag num+1 when it is
// the input's own.
func appendFaultOrFlag(b []byte, num protowire.Number, v machine.Fault, of *bodies) []byte {
	if v != (machine.Fault{}) && v == of.fault {
		return appendBool(b, num+1, true)
	}
	return appendFault(b, num, v)
}

func appendStepRequested(b []byte, of *bodies, r *machine.StepRequested) []byte {
	b = appendUint(b, 1, uint64(r.Step))
	b = appendString(b, 2, r.Key)
	b = appendString(b, 3, r.Tool)
	b = appendUint(b, 4, r.TurnSeq)
	b = appendInt(b, 5, int64(r.Attempt))
	b = appendValueOrRef(b, 6, r.Payload, of)
	b = appendBool(b, 8, r.Reframe)
	b = appendTime(b, 9, r.Deadline)
	return appendBool(b, 10, r.Delegation)
}

// appendValueOrRef writes a body as field num, or as its reference num+1.
func appendValueOrRef(b []byte, num protowire.Number, v []byte, of *bodies) []byte {
	if ref := of.ref(v); ref != 0 {
		return appendUint(b, num+1, ref)
	}
	return appendBytes(b, num, v)
}

func appendStepResolved(b []byte, of *bodies, r *machine.StepResolved) []byte {
	b = appendUint(b, 1, uint64(r.Step))
	b = appendString(b, 2, r.Tool)
	b = appendInt(b, 3, int64(r.Attempt))
	b = appendBool(b, 4, r.OK)
	b = appendValueOrRef(b, 5, r.Result, of)
	b = appendFaultOrFlag(b, 7, r.Error, of)
	b = appendBool(b, 9, r.Unknown)
	b = appendInt(b, 10, int64(r.Next))
	b = appendTime(b, 11, r.Deadline)
	b = appendString(b, 12, r.Worker)
	b = appendWrites(b, 13, r.Artifacts, of)
	return appendUsage(b, 14, r.Usage)
}
