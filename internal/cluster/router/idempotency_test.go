package router

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// knownBy are the fields by which a repeat of what is made again as it stands is known. Each of
// them has to be set: a field whose default means "the current one" means another one by the time
// of the repeat.
var knownBy = map[string][]string{
	pawlv1.PackService_RegisterPack_FullMethodName:    {"content"},
	pawlv1.RunService_ResolveStep_FullMethodName:      {"run_id", "step", "attempt"},
	pawlv1.RunService_AnswerModel_FullMethodName:      {"run_id", "step", "attempt"},
	pawlv1.RunService_UpdateModelCall_FullMethodName:  {"run_id", "step", "attempt"},
	pawlv1.RunService_DeleteRun_FullMethodName:        {"run_id"},
	pawlv1.RunService_EraseRun_FullMethodName:         {"run_id"},
	pawlv1.DeliveryService_AckConsumer_FullMethodName: {"consumer", "cursor"},
}

// TestARepeatIsKnown: each operation that changes something and is made again carries what its
// repeat is known by.
func TestARepeatIsKnown(t *testing.T) {
	t.Parallel()
	for name, m := range methods {
		fields, listed := knownBy[name]
		if same := m.Changes && m.Rule == Idempotent; same != listed {
			t.Errorf("%s is made again as it stands: %v; listed with what its repeat is known by: %v", name, same, listed)
		}
		refused := required(t, m)
		for _, field := range fields {
			if !slices.Contains(refused, field) {
				t.Errorf("%s is made again, and %s may be left out; refused without: %v", name, field, refused)
			}
		}
	}
}

// places name something of a run that moves on: the default must not mean where it is now.
var places = []protoreflect.Name{"attempt", "turn_seq", "step", "round", "delivery", "cursor", "token", "at_seq"}

// optional are the places that may be left out, and what that means.
var optional = map[string]string{
	pawlv1.RunService_ForkRun_FullMethodName + " at_seq": "the last record; the repeat is known by request_id",
	pawlv1.RunService_SendInput_FullMethodName + " step": "the turn, not the question of an agent; the repeat is known by message_id",
}

// TestNoDefaultMeansTheCurrentOne in a request that changes something.
func TestNoDefaultMeansTheCurrentOne(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name, m := range methods {
		if !m.Changes || m.agents || m.clientStreams {
			continue // messages of streams are those of unary methods, which are here
		}
		refused := required(t, m)
		fields := m.in.Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i).Name()
			if !slices.Contains(places, field) || slices.Contains(refused, string(field)) {
				continue
			}
			key := name + " " + string(field)
			if seen[key] = true; optional[key] == "" {
				t.Errorf("%s: what does it mean to leave %s out? Require it, or list what it means.", name, field)
			}
		}
	}
	for key := range optional {
		if !seen[key] {
			t.Errorf("%s is required, or gone", key)
		}
	}
}

// required are the fields without which a request of the method is refused.
func required(t *testing.T, m *Method) (fields []string) {
	t.Helper()
	err := protovalidate.Validate(m.NewRequest())
	broken, ok := errors.AsType[*protovalidate.ValidationError](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	if broken == nil {
		return nil
	}
	for _, violation := range broken.Violations {
		path, _, _ := strings.Cut(protovalidate.FieldPathString(violation.Proto.GetField()), ".")
		fields = append(fields, path)
	}
	return fields
}
