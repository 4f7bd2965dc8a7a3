package codec

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// appendAgentCommand writes the commands of agents and delegations.
func appendAgentCommand(b []byte, command machine.Command) ([]byte, error) {
	switch c := command.(type) {
	case machine.WriteOutput:
		b = appendTurnRef(b, c.TurnSeq, c.Attempt)
		b = appendPiece(b, 3, &c.Piece, nil)
		return appendAssignment(b, 4, c.Assigned), nil
	case machine.NoteDelegation:
		b = appendUint(b, 1, uint64(c.Step))
		b = appendInt(b, 2, int64(c.Attempt))
		b = appendRemote(b, 3, &c.Remote)
		return appendParts(b, 4, c.Question), nil
	}
	return appendControl(b, command)
}

// appendAgentBody writes the records of agents and delegations.
func appendAgentBody(b []byte, of *bodies, body machine.Body) ([]byte, error) {
	switch r := body.(type) {
	case *machine.OutputWritten:
		b = appendTurnRef(b, r.TurnSeq, r.Attempt)
		return appendPiece(b, 3, &r.Piece, of), nil
	case *machine.StepDelegated:
		b = appendUint(b, 1, uint64(r.Step))
		b = appendString(b, 2, r.Tool)
		b = appendInt(b, 3, int64(r.Attempt))
		b = appendRemote(b, 4, &r.Remote)
		return appendPartsOrFlag(b, 5, r.Question, of), nil
	}
	return nil, fmt.Errorf("unknown record body %T", body)
}

// appendPartsOrFlag writes parts as field num, or as the flag num+1 when they are
// the input's own; of is nil inside an input, which refers to nothing.
func appendPartsOrFlag(b []byte, num protowire.Number, parts []machine.Part, of *bodies) []byte {
	if of != nil && sameParts(parts, of.parts) {
		return appendBool(b, num+1, true)
	}
	return appendParts(b, num, parts)
}

func appendPiece(b []byte, num protowire.Number, p *machine.OutputPiece, of *bodies) []byte {
	b, mark := open(b, num)
	b = appendString(b, 1, p.ID)
	b = appendString(b, 2, p.Name)
	b = appendString(b, 3, p.Description)
	b = appendPartsOrFlag(b, 4, p.Parts, of)
	b = appendBool(b, 6, p.Append)
	b = appendBool(b, 7, p.Last)
	b = appendBytes(b, 8, p.Metadata)
	return shut(b, mark)
}

func appendTask(b []byte, num protowire.Number, t *machine.Task) []byte {
	if t == nil {
		return b
	}
	b, mark := open(b, num)
	b = appendString(b, 1, t.ContextID)
	b = appendString(b, 2, t.Owner)
	b = appendString(b, 3, t.Tenant)
	return shut(b, mark)
}

func appendEnvelope(b []byte, num protowire.Number, e *machine.Envelope) []byte {
	if e == nil {
		return b
	}
	b, mark := open(b, num)
	b = appendString(b, 1, e.MessageID)
	b = appendString(b, 2, e.ContextID)
	b = appendStrings(b, 3, e.References)
	b = appendStrings(b, 4, e.Extensions)
	b = appendBytes(b, 5, e.Metadata)
	return shut(b, mark)
}

// appendStrings keeps empty strings: their place in the list counts.
func appendStrings(b []byte, num protowire.Number, list []string) []byte {
	for _, s := range list {
		b = protowire.AppendTag(b, num, protowire.BytesType)
		b = protowire.AppendString(b, s)
	}
	return b
}

func appendRemote(b []byte, num protowire.Number, r *machine.Remote) []byte {
	if r == nil {
		return b
	}
	b, mark := open(b, num)
	b = appendString(b, 1, r.TaskID)
	b = appendString(b, 2, r.ContextID)
	b = appendString(b, 3, r.CardURL)
	b = appendUint(b, 4, uint64(r.Asking))
	b = appendUint(b, 5, r.Answer)
	return shut(b, mark)
}
