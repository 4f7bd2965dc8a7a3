package redact

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

var everything = &Rules{
	variables: map[string]bool{"v": true}, artifacts: map[string]bool{"x": true}, tools: map[string]bool{"x": true}, messages: true,
}

// open are the texts of the messages below that are no values: names, ids, words of the
// engine, and what the pack says of itself.
var open = map[string]bool{
	"settings_json": true, "parameters_json": true, "metadata_json": true,
}

// filled has "s3cret" in every text and every bytes field, to a depth that ends lists.
func filled(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
		case f.IsList() && f.Message() != nil && depth > 0:
			list := m.Mutable(f).List()
			filled(list.AppendMutable().Message(), depth-1)
		case f.IsList():
		case f.Message() != nil && depth > 0:
			if f.ContainingOneof() == nil || m.WhichOneof(f.ContainingOneof()) == nil {
				filled(m.Mutable(f).Message(), depth-1)
			}
		case f.Kind() == protoreflect.StringKind && (f.Name() == "name" || f.Name() == "tool"):
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.StringKind && f.Name() == "variables_json":
			m.Set(f, protoreflect.ValueOfString(`{"v":"s3cret","w":"open"}`))
		case f.Kind() == protoreflect.StringKind:
			if f.ContainingOneof() == nil || m.WhichOneof(f.ContainingOneof()) == nil {
				m.Set(f, protoreflect.ValueOfString("s3cret"))
			}
		}
	}
}

// left are the fields whose name says that they hold a value and that still do.
func left(m protoreflect.Message, path string) (found []string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + "." + string(f.Name())
		switch {
		case f.IsMap():
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				found = append(found, left(v.List().Get(i).Message(), at)...)
			}
		case f.IsList():
		case f.Message() != nil:
			found = append(found, left(v.Message(), at)...)
		case f.Kind() == protoreflect.StringKind && holdsValue(f) && strings.Contains(v.String(), "s3cret"):
			found = append(found, at)
		}
		return true
	})
	return found
}

func holdsValue(f protoreflect.FieldDescriptor) bool {
	name := string(f.Name())
	return strings.HasSuffix(name, "_json") && !open[name] || name == "text" || name == "json" || name == "system_prompt" || name == "goal"
}

// TestEveryValueIsTakenOut: a field of the contract that holds a value, in whatever message
// that readers are told, is replaced; one that is added later and forgotten here fails.
func TestEveryValueIsTakenOut(t *testing.T) {
	t.Parallel()
	bodies := (&pawlv1.Record{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	told := []proto.Message{&pawlv1.GetRunResponse{}, &pawlv1.ShowTurnResponse{}, &pawlv1.Snapshot{}, &pawlv1.Run{}}
	for i := range bodies.Len() {
		record := &pawlv1.Record{}
		record.ProtoReflect().Mutable(bodies.Get(i))
		told = append(told, record)
	}
	for _, m := range told {
		filled(m.ProtoReflect(), 6)
		before := left(m.ProtoReflect(), "")
		changed := everything.Apply(m)
		if after := left(m.ProtoReflect(), string(m.ProtoReflect().Descriptor().Name())); len(after) > 0 {
			t.Errorf("still told: %v", after)
		}
		if len(before) > 0 != changed && m.ProtoReflect().Descriptor().Name() != "Run" {
			t.Errorf("%T had %v, and the change was said: %v", m, before, changed)
		}
	}
}

// TestNothingIsSensitive: without rules nothing changes.
func TestNothingIsSensitive(t *testing.T) {
	t.Parallel()
	m := &pawlv1.GetRunResponse{VariablesJson: `{"v":1}`, Goal: "ship"}
	for _, rules := range []*Rules{nil, {}} {
		if before := proto.CloneOf(m); rules.Apply(m) || !proto.Equal(before, m) {
			t.Errorf("changed to %v", m)
		}
	}
}
