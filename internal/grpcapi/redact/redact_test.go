package redact

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

var allRules = &Rules{
	variables: map[string]bool{"v": true}, artifacts: map[string]bool{"x": true}, tools: map[string]bool{"x": true}, messages: true,
}

// open has the names of texts that are no values: names, ids, words of the engine, and what the pack says of
// itself.
var open = map[string]bool{
	"settings_json": true, "parameters_json": true,
}

// values has other names of texts that hold or quote a value.
var values = map[string]bool{
	"text": true, "json": true, "system_prompt": true, "goal": true, "message": true, "trace": true,
}

// quoting has texts that hold or reveal a value in one message, while texts of the same name in other messages
// are words of the pack or of an operator.
var quoting = map[protoreflect.FullName]bool{
	"pawl.v1.OutputPiece.description": true, "pawl.v1.ApprovalHold.condition_error": true, "pawl.v1.Approval.condition_error": true,
	"pawl.v1.StepDecided.reason": true, "pawl.v1.StepDecided.digest": true, "pawl.v1.StepApproval.digest": true,
	"pawl.v1.ApprovalHold.digest": true, "pawl.v1.EvalResult.explanation": true, "pawl.v1.EvalResult.error": true,
}

// ownTexts has texts with a name in values that the sidecar itself wrote, so that they hold no value.
var ownTexts = map[protoreflect.FullName]bool{
	// The text says how much of which limit is used. Run says this too.
	"pawl.v1.NoticeAdded.text": true,
}

// fillSecrets sets every text and every bytes field to "s3cret", down to a depth at which lists end.
func fillSecrets(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
		case f.IsList() && f.Message() != nil && depth > 0:
			list := m.Mutable(f).List()
			fillSecrets(list.AppendMutable().Message(), depth-1)
		case f.IsList():
		case f.Message() != nil && depth > 0:
			if free(m, f) {
				fillSecrets(m.Mutable(f).Message(), depth-1)
			}
		case f.Kind() == protoreflect.StringKind && (f.Name() == "name" || f.Name() == "tool"):
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.StringKind && f.Name() == "variables_json":
			m.Set(f, protoreflect.ValueOfString(`{"v":"s3cret","w":"open"}`))
		case f.Kind() == protoreflect.StringKind:
			if free(m, f) {
				m.Set(f, protoreflect.ValueOfString("s3cret"))
			}
		}
	}
}

// free reports whether no other field of the same oneof is set.
func free(m protoreflect.Message, f protoreflect.FieldDescriptor) bool {
	one := f.ContainingOneof()
	if one == nil {
		return true
	}
	set := m.WhichOneof(one)
	return set == nil || set == f
}

// remainingSecrets are the fields whose name says that they hold a value and that still do.
func remainingSecrets(m protoreflect.Message, path string) (found []string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + "." + string(f.Name())
		switch {
		case f.IsMap():
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				found = append(found, remainingSecrets(v.List().Get(i).Message(), at)...)
			}
		case f.IsList():
		case f.Message() != nil:
			found = append(found, remainingSecrets(v.Message(), at)...)
		case f.Kind() == protoreflect.StringKind && holdsValue(f) && strings.Contains(v.String(), "s3cret"):
			found = append(found, at)
		}
		return true
	})
	return found
}

func holdsValue(f protoreflect.FieldDescriptor) bool {
	name := string(f.Name())
	if ownTexts[f.FullName()] {
		return false
	}
	return strings.HasSuffix(name, "_json") && !open[name] || values[name] || quoting[f.FullName()]
}

// TestEveryValueIsTakenOut: in all messages that readers receive, every field of the contract that holds a
// value is replaced. If a field is added later without a rule, the test fails.
func TestEveryValueIsTakenOut(t *testing.T) {
	t.Parallel()
	bodies := (&pawlv1.Record{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	messages := []proto.Message{
		&pawlv1.GetRunResponse{}, &pawlv1.ShowTurnResponse{}, &pawlv1.Snapshot{}, &pawlv1.Run{}, &pawlv1.GetTurnResponse{},
		&pawlv1.GetModelStepResponse{}, &pawlv1.Approval{}, &pawlv1.Decision{}, &pawlv1.DecideStepResponse{}, &pawlv1.SteerRunResponse{},
	}
	for i := range bodies.Len() {
		record := &pawlv1.Record{}
		record.ProtoReflect().Mutable(bodies.Get(i))
		messages = append(messages, record)
	}
	for _, m := range messages {
		fillSecrets(m.ProtoReflect(), 6)
		before := remainingSecrets(m.ProtoReflect(), "")
		changed := allRules.Apply(m)
		if after := remainingSecrets(m.ProtoReflect(), string(m.ProtoReflect().Descriptor().Name())); len(after) > 0 {
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

// TestWhatQuotesAValueIsTakenOut: a text that may quote a sensitive value is replaced, even if the rule is
// about a value of another kind. The code of a failure stays.
func TestWhatQuotesAValueIsTakenOut(t *testing.T) {
	t.Parallel()
	parts := []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: `"s3cret"`}, MediaType: "application/json"}}
	variable, artifact := &Rules{variables: set([]string{"v"})}, &Rules{artifacts: set([]string{"x"})}
	tool, messages := &Rules{tools: set([]string{"x"})}, &Rules{messages: true}
	delegated := &pack.SensitiveNames{Tools: set([]string{"agent"})}
	child := NewRules(delegated.InRun(&machine.State{Agent: "agent", Parent: &machine.Parent{RunID: "p"}}))
	if delegated.InRun(&machine.State{Agent: "agent"}) != delegated || delegated.InRun(&machine.State{Agent: "other", Parent: &machine.Parent{}}) != delegated {
		t.Error("a run that is no child of a sensitive tool has other rules than its pack")
	}
	for _, c := range []struct {
		name string
		told proto.Message
		by   []*Rules
	}{
		{"an input", &pawlv1.InputReceived{Parts: parts}, []*Rules{variable, tool, messages, child}},
		{"an input in a conversation", &pawlv1.Message{Role: "user", Parts: parts}, []*Rules{variable, tool, messages, child}},
		{"metadata of a sender", &pawlv1.Envelope{MetadataJson: `{"variables":{"v":"s3cret"}}`}, []*Rules{variable, messages, child}},
		{"the goal", &pawlv1.GetRunResponse{Goal: "s3cret"}, []*Rules{variable, messages, child}},
		{"variables of a child", &pawlv1.GetRunResponse{VariablesJson: `{"any":"s3cret"}`}, []*Rules{child}},
		{"a failed turn", &pawlv1.TurnFailed{Error: &pawlv1.Fault{Code: "C", Message: "s3cret", Trace: "s3cret"}}, []*Rules{variable, artifact, tool, messages, child}},
		{"a worker's failed turn", &pawlv1.WorkFailure{Prompt: "p", Error: &pawlv1.Fault{Code: "C", Message: "s3cret"}}, []*Rules{variable, artifact, tool, messages, child}},
		{"a worker's failed step", &pawlv1.WorkFailure{Tool: "x", Error: &pawlv1.Fault{Code: "C", Message: "s3cret"}}, []*Rules{tool}},
		{"a rejected payload", &pawlv1.StepRejected{Tool: "x", Denial: &pawlv1.Denial{Code: "C", Message: "s3cret"}}, []*Rules{tool}},
		{"words on an output", &pawlv1.OutputPiece{Description: "s3cret", MetadataJson: `"s3cret"`}, []*Rules{messages, child}},
	} {
		for i, rules := range c.by {
			message := proto.Clone(c.told)
			if !rules.Apply(message) || strings.Contains(prototext.Format(message), "s3cret") {
				t.Errorf("%s, rule %d: still told: %v", c.name, i, message)
			}
			if was, is := fmt.Sprint(codes(c.told)), fmt.Sprint(codes(message)); was != is {
				t.Errorf("%s: the code was %s, and is %s", c.name, was, is)
			}
		}
	}
}

// codes returns what stays of a failure.
func codes(m proto.Message) []string {
	switch m := m.(type) {
	case *pawlv1.TurnFailed:
		return []string{m.GetError().GetCode()}
	case *pawlv1.WorkFailure:
		return []string{m.GetError().GetCode()}
	case *pawlv1.StepRejected:
		return []string{m.GetDenial().GetCode()}
	}
	return nil
}
