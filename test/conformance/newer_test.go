package main

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestAge: every message of an answer gets unknown fields, and what it says stays.
func TestAge(t *testing.T) {
	t.Parallel()
	kind, err := answerOf("/pawl.v1.RunService/GetTurn")
	if err != nil {
		t.Fatal(err)
	}
	turn := &pawlv1.GetTurnResponse{
		Turn: &pawlv1.TurnRef{State: "a"}, AllowedEvents: []string{"Done"},
		Messages: []*pawlv1.Message{{Role: "user", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "x"}}}}},
	}
	encoded, err := proto.Marshal(turn)
	if err != nil {
		t.Fatal(err)
	}
	if encoded, err = age(encoded, kind); err != nil {
		t.Fatal(err)
	}
	got := &pawlv1.GetTurnResponse{}
	if err := proto.Unmarshal(encoded, got); err != nil {
		t.Fatal(err)
	}
	for _, m := range []proto.Message{got, got.GetTurn(), got.GetMessages()[0], got.GetMessages()[0].GetParts()[0]} {
		if len(m.ProtoReflect().GetUnknown()) != len(fromTheFuture) {
			t.Errorf("%T has %d bytes of unknown fields", m, len(m.ProtoReflect().GetUnknown()))
		}
		m.ProtoReflect().SetUnknown(nil)
	}
	if !proto.Equal(got, turn) {
		t.Errorf("%v became %v", turn, got)
	}
	if _, err := answerOf("/pawl.v1.RunService/Nonsense"); err == nil {
		t.Error("a method that there is not was found")
	}
}
