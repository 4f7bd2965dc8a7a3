package codec

import (
	"bytes"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// bodies are the values of one input that its records may repeat. The names of the fields are the names
// of the *_of_input fields in the schema. A record that repeats a whole body stores one flag instead. A
// record that repeats a single value stores the position of the value in the list of values, counted
// from 1.
type bodies struct {
	artifacts       []machine.ArtifactWrite
	output          []machine.Part
	messages        []machine.Message
	parts, question []machine.Part
	error           machine.Fault
	// state, conversations and steps are set only for a fork.
	state         *machine.State
	conversations []machine.ConversationCopy
	steps         []machine.TakenStep
	// model is the request to a model. answer is the model's answer.
	model  *machine.ModelRequest
	answer *machine.ModelAnswer

	// These lists contain the values that a reference to a single value can refer to.
	requests []machine.StepRequest
	result   []byte
	queued   []machine.QueuedInput
}

// none is the empty set of bodies. It is used for inputs, which may not refer to other bodies. It is
// read-only.
var none bodies

// bodiesOf returns the bodies of an input. This function is part of the frozen format.
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
		return bodies{error: c.Error}
	case machine.RequestSteps:
		return bodies{requests: c.Requests}
	case machine.ResolveStep:
		return bodies{error: c.Error, result: c.Result}
	case machine.DecideStep:
		return bodies{result: c.Payload}
	case machine.RequestModel:
		return bodies{model: c.Model}
	case machine.AnswerModel:
		return bodies{error: c.Error, answer: c.Answer}
	case machine.WriteOutput:
		return bodies{parts: c.Piece.Parts}
	case machine.NoteDelegation:
		return bodies{question: c.Question}
	case machine.Fork:
		return bodies{
			artifacts: slices.Concat(c.Values, c.Changes), queued: c.Queued,
			state: c.From, conversations: c.Conversations, steps: c.Steps,
		}
	}
	return bodies{}
}

// refMin is the length in bytes at which a reference is shorter than the value itself.
const refMin = 4

// ref returns the reference to a value of the input. The reference is 1 plus the position of the value.
// It is 0 if the input does not have the value. At most one of the three lists is not empty.
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

// value is the inverse of ref. It returns false if the input has no value at the position.
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

// queuedRef returns the reference to a queued input of a fork that has these parts. The reference is 1
// plus the position of the input. It is 0 if no queued input has these parts.
func (o *bodies) queuedRef(parts []machine.Part) uint64 {
	for i := range o.queued {
		if sameParts(parts, o.queued[i].Parts) {
			return uint64(i) + 1
		}
	}
	return 0
}

// same reports whether two values are equal and not empty. If both values are the same memory, it does
// not compare the bytes.
func same(a, b []byte) bool {
	return len(a) == len(b) && (&a[0] == &b[0] || bytes.Equal(a, b))
}

func sameValue(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || same(a, b))
}

// The functions below report whether the body of a record is equal to a body of the input. For an empty
// body they return false.

func sameWrites(a, b []machine.ArtifactWrite) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y machine.ArtifactWrite) bool {
		return x.Name == y.Name && sameValue(x.Value, y.Value)
	})
}

func sameParts(a, b []machine.Part) bool { return len(a) > 0 && equalParts(a, b) }

func sameMessages(a, b []machine.Message) bool { return len(a) > 0 && equalMessages(a, b) }

func sameConversations(a, b []machine.ConversationCopy) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y machine.ConversationCopy) bool {
		return x.State == y.State && equalMessages(x.Messages, y.Messages)
	})
}

func sameTaken(a, b []machine.TakenStep) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y machine.TakenStep) bool {
		return x.Step == y.Step && x.Error == y.Error && x.Request == y.Request && x.Answer == y.Answer && x.Before == y.Before && sameValue(x.Payload, y.Payload) && sameValue(x.Result, y.Result)
	})
}

func sameFault(a, b machine.Fault) bool { return a == b && a != (machine.Fault{}) }

func sameState(a, b *machine.State) bool { return a == b && a != nil }

// A model request or answer is repeated only if the record and the input contain the same pointer.

func sameModel(a, b *machine.ModelRequest) bool { return a == b && a != nil }

func sameAnswer(a, b *machine.ModelAnswer) bool { return a == b && a != nil }

func equalParts(a, b []machine.Part) bool {
	return slices.EqualFunc(a, b, func(x, y machine.Part) bool {
		return x.Kind == y.Kind && x.Text == y.Text && x.MediaType == y.MediaType && x.Filename == y.Filename &&
			sameValue(x.Data, y.Data) && sameValue(x.Metadata, y.Metadata)
	})
}

func equalMessages(a, b []machine.Message) bool {
	return slices.EqualFunc(a, b, func(x, y machine.Message) bool {
		return x.Role == y.Role && x.ToolCallID == y.ToolCallID &&
			sameValue(x.ToolCalls, y.ToolCalls) && equalParts(x.Parts, y.Parts) &&
			sameValue(x.Provider, y.Provider) && x.Refusal == y.Refusal
	})
}
