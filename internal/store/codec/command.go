package codec

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// commandField is the field of Input for a kind of command: kinds are numbered
// from 1, the fields from 5.
func commandField(k machine.CommandKind) protowire.Number { return protowire.Number(k) + 4 }

func appendInput(b []byte, num protowire.Number, in *machine.Input) ([]byte, error) {
	if in.Command == nil {
		return nil, fmt.Errorf("encode input: no command")
	}
	b, mark := open(b, num)
	b = appendTime(b, 1, in.At)
	b = appendString(b, 2, in.Principal)
	b = appendString(b, 3, in.ID)
	b = appendHash(b, 4, &in.BodyHash)
	b, inner := open(b, commandField(machine.KindOf(in.Command)))
	b, err := appendCommand(b, in.Command)
	if err != nil {
		return nil, err
	}
	b = appendUint(shut(b, inner), 36, uint64(in.Semantics))
	return shut(b, mark), nil
}

func appendCommand(b []byte, command machine.Command) ([]byte, error) {
	switch c := command.(type) {
	case machine.Start:
		return appendStart(b, &c), nil
	case machine.EmitEvent:
		return appendEmitEvent(b, &c), nil
	case machine.SendInput:
		b = appendParts(b, 1, c.Parts)
		b = appendUint(b, 2, c.ExpectedSeq)
		b = appendEnvelope(b, 30, c.Envelope)
		b = appendUint(b, 31, uint64(c.Step))
		return appendStrings(b, 32, c.Scopes), nil
	case machine.SetArtifacts:
		b = appendWrites(b, 1, c.Artifacts, nil)
		return appendUint(b, 2, c.ExpectedSeq), nil
	case machine.CompleteTurn:
		return appendCompleteTurn(b, &c), nil
	case machine.FailTurn:
		return appendFailTurn(b, &c), nil
	case machine.SuspendTurn:
		b = appendTurnRef(b, c.TurnSeq, c.Attempt)
		return appendAssignment(b, 3, c.Assigned), nil
	case machine.RequestSteps:
		return appendRequestSteps(b, &c), nil
	case machine.ResolveStep:
		return appendResolveStep(b, &c), nil
	}
	return appendAgentCommand(b, command)
}

// appendControl writes the commands that no work travels with.
func appendControl(b []byte, command machine.Command) ([]byte, error) {
	switch c := command.(type) {
	case machine.FireTimer:
		b = appendUint(b, 1, uint64(c.Kind))
		b = appendUint(b, 2, uint64(c.Step))
		b = appendUint(b, 3, c.Turn)
		return appendTime(b, 4, c.Due), nil
	case machine.Pause:
		return appendString(b, 1, c.Note), nil
	case machine.Resume:
		return appendString(b, 1, c.Note), nil
	case machine.Cancel:
		return appendString(b, 1, c.Note), nil
	case machine.LoseTurn:
		b = appendTurnRef(b, c.TurnSeq, c.Attempt)
		b = appendBool(b, 3, c.LeaseExpired)
		b = appendBool(b, 4, c.Undeliverable)
		return appendAssignment(b, 5, c.Assigned), nil
	case machine.LoseStep:
		b = appendUint(b, 1, uint64(c.Step))
		b = appendInt(b, 2, int64(c.Attempt))
		return appendString(b, 3, c.Worker), nil
	case machine.Fork:
		return appendFork(b, &c), nil
	}
	return nil, fmt.Errorf("encode input: unknown command %T", command)
}

// appendTurnRef writes the turn and attempt that most commands and records
// begin with.
func appendTurnRef(b []byte, turn uint64, attempt int) []byte {
	b = appendUint(b, 1, turn)
	return appendInt(b, 2, int64(attempt))
}

func appendStart(b []byte, c *machine.Start) []byte {
	b = appendUint(b, 1, uint64(c.Namespace))
	b = appendString(b, 2, c.RunID)
	b = appendBool(b, 3, c.EntryOverride)
	b = appendUint(b, 4, uint64(c.Execution))
	b = appendBytes(b, 5, c.Variables)
	b = appendParts(b, 6, c.Input)
	b = appendLabels(b, 7, c.Labels)
	b = appendLimits(b, 8, &c.Limits)
	b = appendParent(b, 9, c.Parent)
	b = appendInt(b, 10, int64(c.Depth))
	b = appendInt(b, 11, int64(c.MaxWallTime))
	b = appendInt(b, 12, int64(c.MaxSteps))
	b = appendTask(b, 30, c.Task)
	return appendEnvelope(b, 31, c.Envelope)
}

func appendEmitEvent(b []byte, c *machine.EmitEvent) []byte {
	b = appendString(b, 1, c.Event)
	b = appendWrites(b, 2, c.Artifacts, nil)
	b = appendUint(b, 3, c.ExpectedSeq)
	b = appendBool(b, 4, c.Outside)
	return appendAssignment(b, 5, c.Assigned)
}

func appendCompleteTurn(b []byte, c *machine.CompleteTurn) []byte {
	b = appendTurnRef(b, c.TurnSeq, c.Attempt)
	b = appendParts(b, 3, c.Output)
	b = appendMessages(b, 4, c.Messages)
	b = appendUsage(b, 5, c.Usage)
	b = appendString(b, 6, c.Event)
	b = appendWrites(b, 7, c.Artifacts, nil)
	b = appendUint(b, 8, c.ExpectedSeq)
	b = appendBool(b, 9, c.Outside)
	b = appendAssignment(b, 10, c.Assigned)
	b = appendUint(b, 30, uint64(c.Await))
	return appendBool(b, 31, c.Reply)
}

func appendFailTurn(b []byte, c *machine.FailTurn) []byte {
	b = appendTurnRef(b, c.TurnSeq, c.Attempt)
	b = appendFault(b, 3, c.Error)
	b = appendBool(b, 4, c.Retryable)
	b = appendUsage(b, 5, c.Usage)
	b = appendAssignment(b, 6, c.Assigned)
	return appendBool(b, 30, c.Reject)
}

func appendRequestSteps(b []byte, c *machine.RequestSteps) []byte {
	b = appendTurnRef(b, c.TurnSeq, c.Attempt)
	for i := range c.Requests {
		r := &c.Requests[i]
		var mark int
		b, mark = open(b, 3)
		b = appendString(b, 1, r.Key)
		b = appendString(b, 2, r.Tool)
		b = appendBytes(b, 3, r.Payload)
		b = appendHash(b, 4, &r.PayloadHash)
		b = appendBool(b, 5, r.Reframe)
		if r.Denied != nil {
			b = appendPresentFault(b, 6, faultOf(*r.Denied))
		}
		b = shut(b, mark)
	}
	b = appendAssignment(b, 4, c.Assigned)
	return appendInt(b, 5, int64(c.First))
}

func appendResolveStep(b []byte, c *machine.ResolveStep) []byte {
	b = appendUint(b, 1, uint64(c.Step))
	b = appendString(b, 2, c.Tool)
	b = appendInt(b, 3, int64(c.Attempt))
	b = appendBool(b, 4, c.OK)
	b = appendBytes(b, 5, c.Result)
	b = appendFault(b, 6, c.Error)
	b = appendString(b, 7, c.Worker)
	b = appendBool(b, 30, c.Final)
	b = appendUsage(b, 31, c.Usage)
	return appendBool(b, 40, c.Unknown)
}
