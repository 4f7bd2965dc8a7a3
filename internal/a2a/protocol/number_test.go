package protocol

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// TestNumbersThatJSONLacks: a part with NaN or an infinity is refused at its place; it was stored as the text "NaN".
func TestNumbersThatJSONLacks(t *testing.T) {
	t.Parallel()
	deep := func(n float64) *structpb.Value {
		return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"amounts": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1), structpb.NewNumberValue(n)}}),
		}})
	}
	for name, tt := range map[string]struct {
		part *a2apb.Part
		at   string
	}{
		"data":     {&a2apb.Part{Content: &a2apb.Part_Data{Data: deep(math.NaN())}}, "message.parts[0].data.amounts[1]"},
		"infinity": {&a2apb.Part{Content: &a2apb.Part_Data{Data: structpb.NewNumberValue(math.Inf(-1))}}, "message.parts[0].data"},
		"metadata": {&a2apb.Part{Content: &a2apb.Part_Text{Text: "x"}, Metadata: deep(math.Inf(1)).GetStructValue()}, "message.parts[0].metadata.amounts[1]"},
		"finite":   {&a2apb.Part{Content: &a2apb.Part_Data{Data: deep(1e300)}}, ""},
		"nothing":  {&a2apb.Part{Content: &a2apb.Part_Data{}}, ""},
	} {
		_, err := PartsFromProto("message.parts", []*a2apb.Part{tt.part})
		fault, ok := errors.AsType[*PartError](err)
		if ok != (tt.at != "") || ok && fault.At != tt.at {
			t.Errorf("%s: %v, want a fault at %q", name, err, tt.at)
		}
	}
}
