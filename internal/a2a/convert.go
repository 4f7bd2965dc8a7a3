package a2a

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// partsFromProto reads the parts of an inbound message; at is their path.
func partsFromProto(at string, parts []*a2apb.Part) ([]machine.Part, error) {
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
	out := machine.Part{MediaType: p.GetMediaType(), Filename: p.GetFilename(), Metadata: objectFromProto(p.GetMetadata())}
	switch c := p.GetContent().(type) {
	case *a2apb.Part_Text:
		out.Kind, out.Text = machine.PartText, c.Text
	case *a2apb.Part_Raw:
		out.Kind, out.Data = machine.PartData, c.Raw
	case *a2apb.Part_Url:
		if c.Url == "" {
			return out, failAt(invalidParams, at+".url", "must not be empty")
		}
		out.Kind, out.Text = machine.PartURI, c.Url
	case *a2apb.Part_Data:
		out.Kind, out.Data = machine.PartJSON, valueFromProto(c.Data)
	default:
		return out, failAt(invalidParams, at, "has no content; want one of text, raw, url, data")
	}
	return out, nil
}

// valueFromProto is compact JSON of a value.
func valueFromProto(v *structpb.Value) []byte {
	raw, err := json.Marshal(v.AsInterface())
	if err != nil {
		return []byte("null")
	}
	return raw
}

// objectFromProto is a compact JSON object, or nothing.
func objectFromProto(s *structpb.Struct) []byte {
	if len(s.GetFields()) == 0 {
		return nil
	}
	raw, err := json.Marshal(s.AsMap())
	if err != nil {
		return nil
	}
	return raw
}

func partsToProto(parts []machine.Part) []*a2apb.Part {
	out := make([]*a2apb.Part, len(parts))
	for i := range parts {
		out[i] = partToProto(&parts[i])
	}
	return out
}

func partToProto(p *machine.Part) *a2apb.Part {
	out := &a2apb.Part{MediaType: p.MediaType, Filename: p.Filename, Metadata: objectToProto(p.Metadata)}
	switch p.Kind {
	case machine.PartText:
		out.Content = &a2apb.Part_Text{Text: strings.ToValidUTF8(p.Text, "\uFFFD")}
	case machine.PartURI:
		out.Content = &a2apb.Part_Url{Url: p.Text}
	case machine.PartJSON:
		out.Content = &a2apb.Part_Data{Data: valueToProto(p.Data)}
	default:
		out.Content = &a2apb.Part_Raw{Raw: p.Data}
	}
	return out
}

// valueToProto reads JSON that was checked before; anything else is null.
func valueToProto(raw []byte) *structpb.Value {
	v := &structpb.Value{}
	if protojson.Unmarshal(raw, v) != nil {
		return structpb.NewNullValue()
	}
	return v
}

func objectToProto(raw []byte) *structpb.Struct {
	if len(raw) == 0 {
		return nil
	}
	return valueToProto(raw).GetStructValue()
}

// envelopeFromProto keeps what a message says besides its parts. Metadata of the
// request goes below that of the message.
func envelopeFromProto(m *a2apb.Message, request *structpb.Struct) *machine.Envelope {
	return &machine.Envelope{
		MessageID: m.GetMessageId(), ContextID: m.GetContextId(), References: m.GetReferenceTaskIds(),
		Extensions: m.GetExtensions(), Metadata: objectFromProto(mergeStructs(request, m.GetMetadata())),
	}
}

// mergeStructs lays the second over the first.
func mergeStructs(below, above *structpb.Struct) *structpb.Struct {
	if len(below.GetFields()) == 0 {
		return above
	}
	out := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for _, s := range []*structpb.Struct{below, above} {
		maps.Copy(out.Fields, s.GetFields())
	}
	return out
}

// artifactPart is a written value of a workflow artifact as a part.
func artifactPart(mediaType string, value []byte) *a2apb.Part {
	switch {
	case isJSON(mediaType):
		return &a2apb.Part{Content: &a2apb.Part_Data{Data: valueToProto(value)}, MediaType: mediaType}
	case strings.HasPrefix(mediaType, "text/"):
		return &a2apb.Part{Content: &a2apb.Part_Text{Text: strings.ToValidUTF8(string(value), "\uFFFD")}, MediaType: mediaType}
	}
	return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: bytes.Clone(value)}, MediaType: mediaType}
}

func isJSON(mediaType string) bool {
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

func textPart(text string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Text{Text: strings.ToValidUTF8(text, "\uFFFD")}}
}

// stampToProto cuts to milliseconds (S§5.6.1).
func stampToProto(nanos int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, nanos).Truncate(time.Millisecond))
}
