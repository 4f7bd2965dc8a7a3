package codec

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// bodies are what one input brought and its records may repeat. A record that
// repeats a whole list says so with one flag; a single value is referred to by
// its place in values, counted from 1.
type bodies struct {
	artifacts []machine.ArtifactWrite
	output    []machine.Part
	messages  []machine.Message
	parts     []machine.Part
	fault     machine.Fault
	requests  []machine.StepRequest
	result    []byte
	fork      *machine.Fork
}

// bodiesOf finds the bodies of an input; the rule is part of the frozen format.
func bodiesOf(c machine.Command) bodies {
	switch c := c.(type) {
	case machine.Start:
		return bodies{parts: c.Input}
	case machine.EmitEvent:
		return bodies{artifacts: c.Artifacts}
	case machine.SetArtifacts:
		return bodies{artifacts: c.Artifacts}
	case machine.SendInput:
		return bodies{parts: c.Parts}
	case machine.CompleteTurn:
		return bodies{artifacts: c.Artifacts, output: c.Output, messages: c.Messages}
	case machine.FailTurn:
		return bodies{fault: c.Error}
	case machine.RequestSteps:
		return bodies{requests: c.Requests}
	case machine.ResolveStep:
		return bodies{fault: c.Error, result: c.Result}
	case machine.WriteOutput:
		return bodies{parts: c.Piece.Parts}
	case machine.NoteDelegation:
		return bodies{parts: c.Question}
	case machine.Fork:
		return bodies{artifacts: slices.Concat(c.Values, c.Changes), fork: &c}
	}
	return bodies{}
}

// refMin is the length from which a reference is shorter than the value.
const refMin = 4

// ref finds a value among the input's: 1 + its place, 0 = not there. Only one of
// the three lists is ever filled.
func (o *bodies) ref(v []byte) uint64 {
	if len(v) < refMin {
		return 0
	}
	if same(v, o.result) {
		return 1
	}
	for i := range o.requests {
		if same(v, o.requests[i].Payload) {
			return uint64(i) + 1
		}
	}
	for i := range o.artifacts {
		if same(v, o.artifacts[i].Value) {
			return uint64(i) + 1
		}
	}
	return 0
}

// value is the inverse of ref; false for a place that the input does not have.
func (o *bodies) value(ref uint64) ([]byte, bool) {
	at := ref - 1
	switch {
	case at == 0 && o.result != nil:
		return o.result, true
	case at < uint64(len(o.requests)):
		return o.requests[at].Payload, true
	case at < uint64(len(o.artifacts)):
		return o.artifacts[at].Value, true
	}
	return nil, false
}

// same compares, without reading them when both are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (&a[0] == &b[0] || bytes.Equal(a, b))
}

func sameValue(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || same(a, b))
}

func sameWrites(a, b []machine.ArtifactWrite) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y machine.ArtifactWrite) bool {
		return x.Name == y.Name && sameValue(x.Value, y.Value)
	})
}

func equalParts(a, b []machine.Part) bool {
	return slices.EqualFunc(a, b, func(x, y machine.Part) bool {
		return x.Kind == y.Kind && x.Text == y.Text && x.MediaType == y.MediaType && x.Filename == y.Filename &&
			sameValue(x.Data, y.Data) && sameValue(x.Metadata, y.Metadata)
	})
}

func sameParts(a, b []machine.Part) bool { return len(a) > 0 && equalParts(a, b) }

func sameMessages(a, b []machine.Message) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, equalMessage)
}

func equalMessage(x, y machine.Message) bool {
	return x.Role == y.Role && x.ToolCallID == y.ToolCallID &&
		sameValue(x.ToolCalls, y.ToolCalls) && equalParts(x.Parts, y.Parts)
}

// appendWrites writes artifact writes; of is nil inside an input, which refers
// to nothing.
func appendWrites(b []byte, num protowire.Number, ws []machine.ArtifactWrite, of *bodies) []byte {
	for i := range ws {
		var ref uint64
		if of != nil {
			ref = of.ref(ws[i].Value)
		}
		var mark int
		b, mark = open(b, num)
		b = appendString(b, 1, ws[i].Name)
		if ref == 0 {
			b = appendBytes(b, 2, ws[i].Value)
		}
		b = appendUint(b, 3, ref)
		b = shut(b, mark)
	}
	return b
}

func (s *scan) write(of *bodies) machine.ArtifactWrite {
	var w machine.ArtifactWrite
	f := newScan("artifact", s.message())
	for f.next() {
		switch f.num {
		case 1:
			w.Name = f.string()
		case 2:
			w.Value = f.bytes()
		case 3:
			w.Value = f.reference(of)
		default:
			f.unknown()
		}
	}
	s.keep(f.err)
	return w
}

// reference reads a ref field and returns the body that it stands for.
func (s *scan) reference(of *bodies) []byte {
	ref := s.uint()
	if of == nil || ref == 0 {
		s.fail("reference outside a record")
		return nil
	}
	v, ok := of.value(ref)
	if !ok {
		s.fail("reference to a body that the input does not have")
	}
	return v
}
