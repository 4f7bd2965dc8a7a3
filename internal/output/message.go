package output

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Message returns the JSON form of a message.
func Message(m proto.Message) any {
	switch m := m.(type) {
	case *timestamppb.Timestamp:
		return m.AsTime().UTC().Format(time.RFC3339Nano)
	case *durationpb.Duration:
		return m.AsDuration().Seconds()
	case *pawlv1.ArtifactValue:
		return ArtifactValue(m)
	case *pawlv1.Record:
		return Record(m)
	case *pawlv1.Run:
		return Run(m)
	}
	return fields(m.ProtoReflect())
}

// Messages returns the JSON form of each message. It never returns nil.
func Messages[M proto.Message](list []M) []any {
	out := make([]any, 0, len(list))
	for _, m := range list {
		out = append(out, Message(m))
	}
	return out
}

// ArtifactValue returns the value of an artifact for JSON: a JSON value, a text, or bytes in base64. It returns nil if there is no value.
func ArtifactValue(v *pawlv1.ArtifactValue) any {
	switch v := v.GetValue().(type) {
	case *pawlv1.ArtifactValue_Json:
		return embedded(v.Json)
	case *pawlv1.ArtifactValue_Text:
		return v.Text
	case *pawlv1.ArtifactValue_Data:
		return v.Data
	}
	return nil
}

// Artifacts returns the values of artifacts as an object, by name.
func Artifacts(list []*pawlv1.Artifact) Object {
	o := Object{}
	for _, a := range list {
		o = append(o, Field{a.GetHead().GetName(), ArtifactValue(a.GetValue())})
	}
	return o
}

// Record returns the JSON form of a record. The key "kind" has the kind, and the key with the name of the kind has the body.
func Record(r *pawlv1.Record) Object {
	m := r.ProtoReflect()
	o := Object{}
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		if f := all.Get(i); f.ContainingOneof() == nil {
			o = append(o, Field{string(f.Name()), fieldValue(m, f)})
		}
	}
	if body := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); body != nil {
		o = append(o, Field{"kind", string(body.Name())}, Field{string(body.Name()), fieldValue(m, body)})
	}
	return o
}

// Run returns the JSON form of a run. The key "id" has the id. The key "artifact_heads" has the artifacts without their values. [RunWith]
// adds the values.
func Run(r *pawlv1.Run) Object {
	o := Object{{"id", r.GetRunId()}}
	for _, key := range []string{"status", "reason", "state", "seq", "visits", "total_visits", "tool_calls"} {
		o = append(o, runField(r, key))
	}
	all := r.ProtoReflect().Descriptor().Fields()
	for i := range all.Len() {
		switch name := string(all.Get(i).Name()); {
		case name == "run_id" || o.hasKey(name):
		case name == "artifacts":
			o = append(o, Field{"artifact_heads", fieldValue(r.ProtoReflect(), all.Get(i))})
		default:
			o = append(o, Field{name, fieldValue(r.ProtoReflect(), all.Get(i))})
		}
	}
	return o
}

// RunWith returns the JSON form of a run, with the values of its artifacts.
func RunWith(r *pawlv1.Run, artifacts []*pawlv1.Artifact) Object {
	o := Run(r)
	at := slices.IndexFunc(o, func(f Field) bool { return f.Key == "tool_calls" }) + 1
	return slices.Insert(o, at, Field{"artifacts", Artifacts(artifacts)})
}

func runField(r *pawlv1.Run, key string) Field {
	m := r.ProtoReflect()
	return Field{key, fieldValue(m, m.Descriptor().Fields().ByName(protoreflect.Name(key)))}
}

func (o Object) hasKey(key string) bool {
	return slices.ContainsFunc(o, func(f Field) bool { return f.Key == key })
}

// fields returns all fields of a message. Of a oneof it returns only the field that is set.
func fields(m protoreflect.Message) Object {
	o := Object{}
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		f := all.Get(i)
		if oneof := f.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() && !m.Has(f) {
			continue
		}
		o = append(o, Field{string(f.Name()), fieldValue(m, f)})
	}
	return o
}

// fieldValue returns a field of a message in the form for JSON. It returns nil for an optional field that is not
// set.
func fieldValue(m protoreflect.Message, f protoreflect.FieldDescriptor) any {
	v := m.Get(f)
	switch {
	case f.IsMap():
		out := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			out[k.String()] = scalarValue(f.MapValue(), v)
			return true
		})
		return out
	case f.IsList():
		out := make([]any, 0, v.List().Len())
		for i := range v.List().Len() {
			out = append(out, scalarValue(f, v.List().Get(i)))
		}
		return out
	case f.HasPresence() && !m.Has(f):
		return nil
	}
	return scalarValue(f, v)
}

// scalarValue returns one value of a field in the form for JSON: enums by name, hashes in hexadecimal digits, and
// embedded JSON as JSON.
func scalarValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return Message(v.Message().Interface())
	case protoreflect.EnumKind:
		return enumName(f.Enum(), v.Enum())
	case protoreflect.BytesKind:
		if f.Name() == "hash" || f.Name() == "prev_hash" {
			return hex.EncodeToString(v.Bytes())
		}
		return v.Bytes()
	case protoreflect.StringKind:
		if f.Name() == "json" || strings.HasSuffix(string(f.Name()), "_json") {
			return embedded(v.String())
		}
	}
	return v.Interface()
}

// embedded returns JSON text in a form that is written unchanged. An empty text becomes null, and a text that is not JSON becomes a
// string.
func embedded(text string) any {
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return text
}

// enumName returns the name of an enum value without the enum's prefix: RUN_STATUS_COMPLETED becomes COMPLETED. For UNSPECIFIED it returns
// nil, and for an unknown number the number.
func enumName(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) any {
	v := e.Values().ByNumber(n)
	if v == nil {
		return int32(n)
	}
	if name := Bare(string(e.Name()), string(v.Name())); name != "UNSPECIFIED" {
		return name
	}
	return nil
}

// Bare removes the prefix with the enum's name from the name of a value.
func Bare(enum, value string) string {
	return strings.TrimPrefix(value, upperSnake(enum)+"_")
}

func upperSnake(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
