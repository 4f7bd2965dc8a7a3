package protocol

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// PartError is the error of an invalid part of a message.
type PartError struct {
	// At is the path of the field. Msg describes the fault.
	At, Msg string
}

func (e *PartError) Error() string { return e.At + ": " + e.Msg }

// PartsFromProto converts the parts of a message. at is the path of the parts. Errors: [*PartError].
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

// partFromProto converts one part of an A2A message. at is the path of the part for errors.
func partFromProto(at string, p *a2apb.Part) (machine.Part, error) {
	out := machine.Part{MediaType: p.GetMediaType(), Filename: p.GetFilename(), Metadata: ObjectFromProto(p.GetMetadata())}
	if err := notJSON(at+".metadata", structpb.NewStructValue(p.GetMetadata())); err != nil {
		return out, err
	}
	switch c := p.GetContent().(type) {
	case *a2apb.Part_Text:
		out.Kind, out.Text = machine.PartText, c.Text
		if p.GetMetadata().GetFields()[ExactURI].GetBoolValue() {
			return exactPart(at, p)
		}
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

// notJSON returns an error for a number that JSON cannot represent. gRPC can send NaN and infinities.
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

// PartsToProto converts parts to protobuf.
func PartsToProto(parts []machine.Part) []*a2apb.Part {
	out := make([]*a2apb.Part, len(parts))
	for i := range parts {
		out[i] = PartToProto(&parts[i])
	}
	return out
}

// PartToProto converts a part to protobuf. If a text contains bytes that are not UTF-8, they are
// replaced.
func PartToProto(p *machine.Part) *a2apb.Part {
	out := &a2apb.Part{MediaType: p.MediaType, Filename: p.Filename, Metadata: ObjectToProto(p.Metadata)}
	switch p.Kind {
	case machine.PartText:
		out.Content = &a2apb.Part_Text{Text: strings.ToValidUTF8(p.Text, "\uFFFD")}
	case machine.PartURI:
		out.Content = &a2apb.Part_Url{Url: p.Text}
	case machine.PartJSON:
		putJSON(out, p.Data)
	default:
		out.Content = &a2apb.Part_Raw{Raw: p.Data}
	}
	return out
}

// exactPart converts a part whose text is JSON.
func exactPart(at string, p *a2apb.Part) (machine.Part, error) {
	data, err := strictjson.Compact([]byte(p.GetText()))
	if err != nil {
		return machine.Part{}, &PartError{At: at + ".text", Msg: "is not JSON, as metadata[" + ExactURI + "] says: " + err.Error()}
	}
	rest := maps.Clone(p.GetMetadata().GetFields())
	delete(rest, ExactURI)
	return machine.Part{
		Kind: machine.PartJSON, Data: data, MediaType: p.GetMediaType(), Filename: p.GetFilename(), Metadata: ObjectFromProto(&structpb.Struct{Fields: rest}),
	}, nil
}

// putJSON sets the JSON of a part as data, or as text if a double cannot represent one of its numbers.
func putJSON(out *a2apb.Part, data []byte) {
	if !textOnly(data) {
		out.Content = &a2apb.Part_Data{Data: ValueToProto(data)}
		return
	}
	if out.MediaType == "" {
		out.MediaType = "application/json"
	}
	if out.Metadata == nil {
		out.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	out.Metadata.Fields[ExactURI] = structpb.NewBoolValue(true)
	out.Content = &a2apb.Part_Text{Text: string(data)}
}
