package terms

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// PartError is what is wrong with a part of a message.
type PartError struct {
	// At is the path of the field, Msg what is wrong with it.
	At, Msg string
}

func (e *PartError) Error() string { return e.At + ": " + e.Msg }

// PartsFromProto reads the parts of a message; at is their path. Errors: [*PartError].
func PartsFromProto(at string, parts []*a2apb.Part) ([]machine.Part, error) {
	out := make([]machine.Part, len(parts))
	for i, p := range parts {
		part, err := partFromProto(fmt.Sprintf("%s[%d]", at, i), p)
		if err != nil {
			return nil, err
		}
		out[i] = part
	}
	return out, nil
}

func partFromProto(at string, p *a2apb.Part) (machine.Part, error) {
	out := machine.Part{MediaType: p.GetMediaType(), Filename: p.GetFilename(), Metadata: ObjectFromProto(p.GetMetadata())}
	if err := notJSON(at+".metadata", structpb.NewStructValue(p.GetMetadata())); err != nil {
		return out, err
	}
	switch c := p.GetContent().(type) {
	case *a2apb.Part_Text:
		out.Kind, out.Text = machine.PartText, c.Text
	case *a2apb.Part_Raw:
		out.Kind, out.Data = machine.PartData, c.Raw
	case *a2apb.Part_Url:
		if c.Url == "" {
			return out, &PartError{At: at + ".url", Msg: "must not be empty"}
		}
		out.Kind, out.Text = machine.PartURI, c.Url
	case *a2apb.Part_Data:
		if err := notJSON(at+".data", c.Data); err != nil {
			return out, err
		}
		out.Kind, out.Data = machine.PartJSON, ValueFromProto(c.Data)
	default:
		return out, &PartError{At: at, Msg: "has no content; want one of text, raw, url, data"}
	}
	return out, nil
}

// notJSON finds a number that JSON does not have: gRPC carries NaN and infinities, and their names are texts in JSON.
func notJSON(at string, v *structpb.Value) error {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		if math.IsNaN(k.NumberValue) || math.IsInf(k.NumberValue, 0) {
			return &PartError{At: at, Msg: fmt.Sprintf("is %v; want a number that JSON has", k.NumberValue)}
		}
	case *structpb.Value_ListValue:
		for i, item := range k.ListValue.GetValues() {
			if err := notJSON(fmt.Sprintf("%s[%d]", at, i), item); err != nil {
				return err
			}
		}
	case *structpb.Value_StructValue:
		for _, name := range slices.Sorted(maps.Keys(k.StructValue.GetFields())) {
			if err := notJSON(at+"."+name, k.StructValue.GetFields()[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ValueFromProto is compact JSON of a value.
func ValueFromProto(v *structpb.Value) []byte {
	raw, err := json.Marshal(v.AsInterface())
	if err != nil {
		return []byte("null")
	}
	return raw
}

// ObjectFromProto is a compact JSON object, or nothing.
func ObjectFromProto(s *structpb.Struct) []byte {
	if len(s.GetFields()) == 0 {
		return nil
	}
	raw, err := json.Marshal(s.AsMap())
	if err != nil {
		return nil
	}
	return raw
}

// PartsToProto puts parts on the wire.
func PartsToProto(parts []machine.Part) []*a2apb.Part {
	out := make([]*a2apb.Part, len(parts))
	for i := range parts {
		out[i] = PartToProto(&parts[i])
	}
	return out
}

// PartToProto puts a part on the wire; text that is no UTF-8 is mended.
func PartToProto(p *machine.Part) *a2apb.Part {
	out := &a2apb.Part{MediaType: p.MediaType, Filename: p.Filename, Metadata: ObjectToProto(p.Metadata)}
	switch p.Kind {
	case machine.PartText:
		out.Content = &a2apb.Part_Text{Text: strings.ToValidUTF8(p.Text, "\uFFFD")}
	case machine.PartURI:
		out.Content = &a2apb.Part_Url{Url: p.Text}
	case machine.PartJSON:
		out.Content = &a2apb.Part_Data{Data: ValueToProto(p.Data)}
	default:
		out.Content = &a2apb.Part_Raw{Raw: p.Data}
	}
	return out
}

// ValueToProto reads JSON that was checked before; anything else is null.
func ValueToProto(raw []byte) *structpb.Value {
	v := &structpb.Value{}
	if protojson.Unmarshal(raw, v) != nil {
		return structpb.NewNullValue()
	}
	return v
}

// ObjectToProto reads a JSON object that was checked before; nothing is nil.
func ObjectToProto(raw []byte) *structpb.Struct {
	if len(raw) == 0 {
		return nil
	}
	return ValueToProto(raw).GetStructValue()
}
