package grpcapi

import (
	"math/rand/v2"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const someRunID = "01J99999999999999999999999"

// goodMessages are requests that the fast check accepts.
func goodMessages() []proto.Message {
	parts := []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "x"}}, {Content: &pawlv1.Part_Json{Json: "1"}, MediaType: "m"}}
	writes := []*pawlv1.ArtifactWrite{
		{Name: "note", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "x"}}},
		{Name: "log", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: "1"}}},
	}
	completion := func() *pawlv1.CompleteTurnRequest {
		return &pawlv1.CompleteTurnRequest{
			RunId: someRunID, TurnSeq: 1, Attempt: 1, Output: parts, Event: "Again", Artifacts: writes,
			Messages: []*pawlv1.Message{{Role: "tool", Parts: parts, ToolCallId: "1"}}, Usage: &pawlv1.Usage{InputTokens: 1},
		}
	}
	return []proto.Message{
		&pawlv1.EmitEventRequest{Namespace: "a-0", RunId: someRunID, Event: "Again", EventId: "e", TurnToken: "t", Artifacts: writes},
		&pawlv1.GetTurnRequest{RunId: someRunID},
		&pawlv1.SetArtifactsRequest{RunId: someRunID, Artifacts: writes, WriteId: "w", TurnToken: "t"},
		completion(),
		&pawlv1.WorkRequest{Id: 1, Credits: &pawlv1.WorkCredits{Turns: 1}, Item: &pawlv1.WorkRequest_CompleteTurn{CompleteTurn: completion()}},
	}
}

// TestFastValidIsTheContract: what is sure keeps every constraint of the contract, however a
// field is moved to the edges of what may be.
func TestFastValidIsTheContract(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	moved, stayed := 0, 0
	for _, m := range goodMessages() {
		if !fastValid(m) {
			t.Errorf("not sure of %v", m)
		}
		for range 2000 {
			changed := proto.Clone(m)
			for range 1 + rng.IntN(2) {
				moveField(rng, changed.ProtoReflect())
			}
			if !fastValid(changed) {
				moved++
				continue
			}
			stayed++
			if err := protovalidate.Validate(changed); err != nil {
				t.Fatalf("sure of what the contract refuses: %v: %.200s", err, changed)
			}
		}
	}
	if moved < 1000 || stayed < 1000 {
		t.Errorf("%d of the changed requests are sure, %d are not", stayed, moved)
	}
}

// moveField changes one field of a message, or of one within it.
func moveField(rng *rand.Rand, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	if fields.Len() == 0 {
		return
	}
	field := fields.Get(rng.IntN(fields.Len()))
	switch {
	case field.IsMap():
	case field.IsList():
		list := m.Mutable(field).List()
		if n := list.Len(); n > 0 && field.Message() != nil && rng.IntN(3) > 0 {
			moveField(rng, list.Get(rng.IntN(n)).Message())
			return
		}
		list.Truncate(0)
		for range []int{0, 1, 64, 65, 256, 257}[rng.IntN(6)] {
			list.Append(list.NewElement())
		}
	case field.Message() != nil:
		if rng.IntN(4) == 0 {
			m.Clear(field)
			return
		}
		moveField(rng, m.Mutable(field).Message())
	case rng.IntN(8) == 0:
		m.Clear(field)
	default:
		m.Set(field, atEdge(rng, field))
	}
}

// atEdge is a value at the edge of some bound.
func atEdge(rng *rand.Rand, field protoreflect.FieldDescriptor) protoreflect.Value {
	bounds := []int64{0, 1, 63, 64, 128, 255, 256, 1024, 8192, 10_000, 65536, 1_000_000, 1_000_000_000_000}
	n := bounds[rng.IntN(len(bounds))] + int64(rng.IntN(3)) - 1
	words := []string{"user", "robot", "a-1", "A", "-a", "a_b", someRunID, "8" + someRunID[1:], someRunID[1:] + "U", someRunID + "0", strings.ToLower(someRunID)}
	switch field.Kind() {
	case protoreflect.StringKind:
		if rng.IntN(2) == 0 {
			return protoreflect.ValueOfString(words[rng.IntN(len(words))])
		}
		return protoreflect.ValueOfString(strings.Repeat("a", int(min(max(n, 0), 65537))))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{1})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rng.IntN(5) - 1))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	default:
		return protoreflect.ValueOfUint64(uint64(max(n, 0)))
	}
}
