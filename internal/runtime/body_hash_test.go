package runtime

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// uncompared are the fields of commands that a repeat with the same id may change. The engine sets the fields of the
// first line itself. The fields of the second line say on which execution and state the request is based. The fields of
// the third line are not stored, or differ in a repeat.
var uncompared = strings.Fields(`
	Assigned Violation Outside Scopes Worker First Holding Denied Effect Policy Local Repeatable PayloadHash Starters Price Messages.Envelope
	ExpectedSeq TurnSeq TurnAttempt
	Artifacts.Form Artifacts.Type Error.Trace
`)

// uncomparedOf are further such fields of single commands: the attempt of a turn, what the id of an answer contains,
// and what no caller can set.
var uncomparedOf = map[machine.CommandKind][]string{
	machine.CmdCompleteTurn: {"Attempt"}, machine.CmdFailTurn: {"Attempt"}, machine.CmdWriteOutput: {"Attempt"}, machine.CmdRequestSteps: {"Attempt"},
	machine.CmdAnswerModel: {"Step", "Attempt", "Usage.Model"}, machine.CmdRaiseBudget: {"To.ToolCalls"},
}

type frozenClock struct{ Clock }

func (frozenClock) Now() time.Time { return time.Unix(1, 0) }

// bodyHash returns the hash with which a command is compared with an earlier one that has the same id.
func bodyHash(c machine.Command) [32]byte {
	t := execution{
		e: &Engine{cfg: Config{Clock: frozenClock{}}}, op: &operation{command: c, id: "id"},
		state: &machine.State{Current: "s"},
		program: &packcache.Program{
			Pack:  &pack.Pack{Doc: &pack.Document{Prompts: map[string]*pack.Prompt{"p": {}}}},
			Graph: &machine.Graph{States: map[string]*machine.Node{"s": {Prompt: "p"}}},
		},
	}
	t.stamp(false)
	return t.input.BodyHash
}

// TestEachFieldIsCompared: a repeat of a request with the same id and another value of any field is another request.
// Without this, the caller would get the answer to something else.
func TestEachFieldIsCompared(t *testing.T) {
	t.Parallel()
	for _, command := range []machine.Command{
		machine.EmitEvent{}, machine.SendInput{}, machine.CompleteTurn{}, machine.WriteOutput{}, machine.RequestSteps{}, machine.ResolveStep{},
		machine.DecideStep{}, machine.AnswerModel{}, machine.SetArtifacts{}, machine.FailTurn{}, machine.RaiseBudget{},
		machine.Pause{}, machine.Resume{}, machine.Cancel{}, machine.Steer{}, machine.Stop{},
	} {
		skip := slices.Concat(uncomparedOf[machine.KindOf(command)], uncompared)
		full := reflect.New(reflect.TypeOf(command)).Elem()
		eachField(full, "", func(string, reflect.Value) {})
		before := bodyHash(full.Interface().(machine.Command))
		if before == ([32]byte{}) {
			t.Fatalf("%T has no hash", command)
		}
		eachField(full, "", func(path string, field reflect.Value) {
			if isUncompared(path, skip) {
				return
			}
			old := reflect.ValueOf(field.Interface())
			change(field)
			if bodyHash(full.Interface().(machine.Command)) == before {
				t.Errorf("%T: a repeat with another %s is the same request", command, path)
			}
			field.Set(old)
		})
	}
}

// isUncompared reports whether the field, or a field that contains it, is in the list.
func isUncompared(path string, skip []string) bool {
	return slices.ContainsFunc(skip, func(s string) bool { return strings.Contains("."+path+".", "."+s+".") })
}

// eachField fills all fields of a value that are empty, and calls do for each field that has no fields itself.
func eachField(v reflect.Value, path string, do func(path string, field reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), do)
		}
		return
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		eachField(v.Elem(), path, do)
		return
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			eachField(v.Index(0), path, do)
			return
		}
	}
	if v.IsZero() {
		change(v)
	}
	do(path, v)
}

// change sets a field to another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Slice:
		v.SetBytes(fmt.Appendf(nil, `{"a":%d}`, v.Len()))
	case reflect.Array:
		v.Index(0).SetUint(v.Index(0).Uint() + 1)
	default:
		if v.CanInt() {
			v.SetInt(v.Int() + 1)
			return
		}
		v.SetUint(v.Uint() + 1)
	}
}
