package godriver

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

var camelBoundary = regexp.MustCompile(`([a-z])([A-Z])`)

// codeName is the name of a gRPC status, as "NOT_FOUND".
func codeName(code codes.Code) string {
	return strings.ToUpper(camelBoundary.ReplaceAllString(strings.Replace(code.String(), "Canceled", "Cancelled", 1), "${1}_${2}"))
}

// canonical is a message as the scenarios have it: snake_case names, words of enums
// without their prefix, foo_json as the parsed value foo, artifacts by their value.
func canonical(m proto.Message) any {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	switch m := m.(type) {
	case *timestamppb.Timestamp:
		return m.AsTime().Format("2006-01-02T15:04:05.999999999Z07:00")
	case *durationpb.Duration:
		return m.AsDuration().Seconds()
	case *pawlv1.ArtifactValue:
		return valueOf(m)
	case *pawlv1.Message:
		return canonMessage(m)
	case *pawlv1.Part:
		return canonPart(m)
	case *pawlv1.Record:
		return canonRecord(m)
	}
	return canonFields(m.ProtoReflect())
}

func canonFields(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name, value := string(field.Name()), m.Get(field)
		switch {
		case field.HasPresence() && !m.Has(field):
			out[strings.TrimSuffix(name, "_json")] = nil
		case field.IsList():
			list := []any{}
			for j := range value.List().Len() {
				list = append(list, canonValue(field, value.List().Get(j)))
			}
			out[name] = list
		case field.IsMap():
			entries := map[string]any{}
			value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = canonValue(field.MapValue(), v)
				return true
			})
			out[name] = entries
		case strings.HasSuffix(name, "_json"):
			out[strings.TrimSuffix(name, "_json")] = parsed(value.String())
		default:
			out[name] = canonValue(field, value)
		}
	}
	return out
}

func canonValue(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return canonical(value.Message().Interface())
	case protoreflect.EnumKind:
		return word(field.Enum(), value.Enum())
	case protoreflect.BytesKind:
		return markBytes(value.Bytes())
	}
	return value.Interface()
}

// word is a value of an enum without the enum's name.
func word(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) any {
	value := enum.Values().ByNumber(number)
	if value == nil {
		return "UNSPECIFIED"
	}
	prefix := strings.ToUpper(camelBoundary.ReplaceAllString(string(enum.Name()), "${1}_${2}")) + "_"
	return strings.TrimPrefix(string(value.Name()), prefix)
}

// canonRecord returns a record with its contents under the key body, for every kind.
func canonRecord(r *pawlv1.Record) map[string]any {
	out := map[string]any{
		"seq": r.GetSeq(), "prev_seq": r.GetPrevSeq(), "cause": word(r.GetCause().Descriptor(), r.GetCause().Number()),
		"principal": r.GetPrincipal(), "kind": "UNSPECIFIED", "body": nil,
	}
	m := r.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); field != nil {
		out["kind"] = strings.ToUpper(string(field.Name()))
		out["body"] = canonical(m.Get(field).Message().Interface())
	}
	return out
}

// canonMessage has the text of its parts besides all that it says.
func canonMessage(m *pawlv1.Message) map[string]any {
	out := canonFields(m.ProtoReflect())
	out["text"] = textOf(m.GetParts())
	return out
}

// canonPart has its content alone.
func canonPart(p *pawlv1.Part) any {
	switch content := p.GetContent().(type) {
	case *pawlv1.Part_Json:
		return map[string]any{"json": parsed(content.Json)}
	case *pawlv1.Part_Data:
		return map[string]any{"data": markBytes(content.Data)}
	case *pawlv1.Part_Uri:
		return map[string]any{"uri": content.Uri}
	}
	return map[string]any{"text": p.GetText()}
}

// markBytes are bytes as scenarios write them.
func markBytes(data []byte) map[string]any {
	return map[string]any{"$bytes": base64.StdEncoding.EncodeToString(data)}
}

func parsed(text string) any {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func valueOf(v *pawlv1.ArtifactValue) any {
	switch value := v.GetValue().(type) {
	case *pawlv1.ArtifactValue_Json:
		return parsed(value.Json)
	case *pawlv1.ArtifactValue_Text:
		return value.Text
	case *pawlv1.ArtifactValue_Data:
		return markBytes(value.Data)
	}
	return nil
}

func textOf(parts []*pawlv1.Part) string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(part.GetText())
	}
	return text.String()
}
